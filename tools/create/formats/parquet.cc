// Parquet files, and Hugging Face's folders of them or of Arrow's streams.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <utility>

#include "io/base/error.h"
#include "io/base/json.h"
#include "io/base/text.h"
#include "io/local_path.h"
#include "tools/create/formats/formats.h"
#include "tools/create/record_source.h"
#include "tools/create/record_values.h"
#include "tools/create/table_records.h"

namespace millrace::tools {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> files_with(const fs::path& folder, const std::string& suffix) {
  std::vector<std::string> files;
  for (const std::string& name : io::names_in(folder.string())) {
    const fs::path path = folder / name;
    if (path.extension() == suffix && fs::is_regular_file(path)) files.push_back(path.string());
  }
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

/// A file's place among those that are one set: "train-00001-of-00003.parquet", as datasets and the
/// hub name them.
struct NumberedName {
  std::string set;  ///< "train"; of "food-test.arrow" "food-test"
  std::uint64_t number = 0;
  std::uint64_t count = 0;  ///< 0: the name has none
};

NumberedName numbered_name(const std::string& file) {
  static const std::regex kNumbered("(.*)-([0-9]{1,9})-of-([0-9]{1,9})(-[0-9a-f]+)?");
  std::string stem = fs::path(file).stem().string();
  std::smatch found;
  if (!std::regex_match(stem, found, kNumbered)) return {.set = std::move(stem)};
  return {.set = found[1], .number = std::stoull(found[2]), .count = std::stoull(found[3])};
}

/// Where names say how many files there are, all of them are.
void check_complete(const std::vector<std::string>& files) {
  std::map<std::pair<std::string, std::uint64_t>, std::set<std::uint64_t>> sets;
  for (const std::string& file : files)
    if (const NumberedName name = numbered_name(file); name.count > 0)
      sets[{name.set, name.count}].insert(name.number);
  for (const auto& [set, numbers] : sets) {
    if (numbers.size() == set.second && *numbers.rbegin() < set.second) continue;
    const std::string folder = fs::path(files.front()).parent_path().string();
    throw Error(ErrorCode::kNotFound,
                fmt::format("{} holds {} of the {} files of {}", folder, numbers.size(), set.second,
                            printable(set.first)));
  }
}

template <typename SetOf>
std::set<std::string> sets_in(const std::vector<std::string>& files, const SetOf& set_of) {
  std::set<std::string> sets;
  for (const std::string& file : files) sets.insert(set_of(file));
  return sets;
}

std::string listed(const std::set<std::string>& names) {
  return printable(fmt::format("{}", fmt::join(names, ", ")));
}

/// Those of a hub's repository: one split's, "train-00000-of-00002.parquet".
std::vector<std::string> repository_files(const std::string& folder) {
  std::vector<std::string> files = files_with(folder, ".parquet");
  if (files.empty()) files = files_with(fs::path(folder) / "data", ".parquet");
  const auto splits = sets_in(files, [](const std::string& file) {
    const std::string name = fs::path(file).filename().string();
    return name.substr(0, name.find_first_of("-."));
  });
  if (splits.size() > 1)
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("{} holds several sets ({}): --from-parquet '{}/{}-*.parquet' takes one",
                    folder, listed(splits), fs::path(files.front()).parent_path().string(),
                    *splits.begin()));
  check_complete(files);
  return files;
}

/// Those of a folder of datasets' cache, which has what was computed from them, too: one split's,
/// "food-train.arrow" or "food-train-00000-of-00002.arrow".
std::vector<std::string> cached_files(const std::string& folder, const Log& log) {
  std::vector<std::string> files = files_with(folder, ".arrow");
  const std::size_t left_out = std::erase_if(files, [](const std::string& file) {
    return fs::path(file).filename().string().starts_with("cache-");
  });
  const auto sets = sets_in(files, [](const std::string& file) { return numbered_name(file).set; });
  if (sets.size() > 1)
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} holds several sets ({}): give a folder with the files, or links to "
                            "the files, of one",
                            folder, listed(sets)));
  check_complete(files);
  if (left_out > 0)
    log.info(fmt::format("left out: {} cache-*.arrow in {}, copies that datasets computed",
                         left_out, folder));
  return files;
}

/// The number of samples that dataset_info.json has for the split of these files; nullopt: it does
/// not say. Only beside a cache's files: save_to_disk() keeps what was said of the set before
/// select() and filter().
std::optional<std::uint64_t> promised_samples(const std::string& folder,
                                              const std::vector<std::string>& files) {
  const std::string path = (fs::path(folder) / "dataset_info.json").string();
  if (files.empty() || !fs::is_regular_file(path)) return {};
  const RecordJson info = read_index_json(path);
  const auto splits = RecordJson::json_pointer("/splits");
  if (!info.is_object() || !info.contains(splits) || !info[splits].is_object()) return {};
  const std::string set = numbered_name(files.front()).set;
  for (const auto& [name, split] : info[splits].items())
    if ((set == name || set.ends_with("-" + name)) && split.is_object() &&
        split.contains("num_examples") && split["num_examples"].is_number())
      return json_integer<std::uint64_t>(split["num_examples"], "num_examples");
  return {};
}

void check_promised(const std::string& folder, const std::vector<std::string>& files,
                    std::uint64_t samples) {
  const auto promised = promised_samples(folder, files);
  if (promised && *promised != samples)
    throw Error(
        ErrorCode::kTruncated,
        fmt::format("{} in the files of {}, but num_examples is {}", counted(samples, "sample"),
                    printable(numbered_name(files.front()).set), *promised),
        {.url = (fs::path(folder) / "dataset_info.json").string()});
}

}  // namespace

std::unique_ptr<SampleSource> open_parquet_source(const SourceRequest& request) {
  return open_record_source(open_table_records(request.paths, TableFormat::kParquet), request);
}

std::unique_ptr<SampleSource> open_hf_source(const SourceRequest& request) {
  const std::string& folder = request.paths.front();
  refuse_splits(folder);
  const bool saved = fs::is_regular_file(fs::path(folder) / "state.json");
  std::vector<std::string> files = saved ? saved_files(folder) : cached_files(folder, request.log);
  const bool cached = !saved && !files.empty();
  const TableFormat format = files.empty() ? TableFormat::kParquet : TableFormat::kStream;
  if (files.empty()) files = repository_files(folder);
  if (files.empty())
    throw Error(ErrorCode::kInvalidArgument, folder + " holds neither *.arrow nor *.parquet files");
  auto records = open_table_records(files, format);
  if (cached) check_promised(folder, files, records->size());
  return open_record_source(std::move(records), request);
}

}  // namespace millrace::tools
