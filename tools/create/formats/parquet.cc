// Parquet files, and Hugging Face's folders of them or of Arrow's streams.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "io/base/error.h"
#include "io/base/json.h"
#include "io/base/text.h"
#include "tools/create/formats/formats.h"
#include "tools/create/record_source.h"
#include "tools/create/record_values.h"
#include "tools/create/table_records.h"

namespace millrace::tools {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> files_with(const fs::path& folder, const std::string& suffix) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.is_regular_file() && entry.path().extension() == suffix)
      files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

/// The files of save_to_disk(), in order.
std::vector<std::string> saved_files(const std::string& folder) {
  const std::string path = (fs::path(folder) / "state.json").string();
  const RecordJson state = read_index_json(path);
  std::vector<std::string> files;
  if (!state.is_object() || !state.contains("_data_files") || !state["_data_files"].is_array())
    throw Error(ErrorCode::kCorrupt, "it lists no data files", {.url = path});
  for (const RecordJson& file : state["_data_files"]) {
    if (!file.is_object() || !file.contains("filename") || !file["filename"].is_string())
      throw Error(ErrorCode::kCorrupt, "a data file without a name", {.url = path});
    files.push_back(path_inside(folder, file["filename"].get<std::string>()));
    if (!fs::is_regular_file(files.back()))
      throw Error(ErrorCode::kNotFound, "no file is " + files.back(), {.url = path});
  }
  return files;
}

void refuse_splits(const std::string& folder) {
  const std::string path = (fs::path(folder) / "dataset_dict.json").string();
  if (!fs::is_regular_file(path)) return;
  const RecordJson splits = read_index_json(path);
  const bool listed =
      splits.is_object() && splits.contains("splits") && splits["splits"].is_array();
  std::string names;
  if (listed)
    for (const RecordJson& split : splits["splits"])
      names += (names.empty() ? "" : ", ") +
               (split.is_string() ? split.get<std::string>() : split.dump());
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("{} holds several sets: give the folder of one of them ({})", folder,
                          printable(names)));
}

/// Those of a hub's repository: one split's, "train-00000-of-00002.parquet".
std::vector<std::string> repository_files(const std::string& folder) {
  std::vector<std::string> files = files_with(folder, ".parquet");
  if (files.empty()) files = files_with(fs::path(folder) / "data", ".parquet");
  std::set<std::string> splits;
  for (const std::string& file : files) {
    const std::string name = fs::path(file).filename().string();
    splits.insert(name.substr(0, name.find_first_of("-.")));
  }
  if (splits.size() > 1)
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("{} holds several sets ({}): --from-parquet '{}/{}-*.parquet' takes one",
                    folder, printable(fmt::format("{}", fmt::join(splits, ", "))),
                    fs::path(files.front()).parent_path().string(), *splits.begin()));
  return files;
}

}  // namespace

std::unique_ptr<SampleSource> open_parquet_source(const SourceRequest& request) {
  return open_record_source(open_table_records(request.paths, TableFormat::kParquet), request);
}

std::unique_ptr<SampleSource> open_hf_source(const SourceRequest& request) {
  const std::string& folder = request.paths.front();
  refuse_splits(folder);
  const bool saved = fs::is_regular_file(fs::path(folder) / "state.json");
  std::vector<std::string> files = saved ? saved_files(folder) : files_with(folder, ".arrow");
  const TableFormat format = files.empty() ? TableFormat::kParquet : TableFormat::kStream;
  if (files.empty()) files = repository_files(folder);
  if (files.empty())
    throw Error(ErrorCode::kInvalidArgument, folder + " holds neither *.arrow nor *.parquet files");
  return open_record_source(open_table_records(files, format), request);
}

}  // namespace millrace::tools
