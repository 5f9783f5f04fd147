#include "tools/create/source_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "decode/codec.h"
#include "io/base/error.h"
#include "tools/create/cifar_source.h"
#include "tools/create/folder_source.h"
#include "tools/create/idx_source.h"
#include "tools/create/list_source.h"
#include "tools/parse.h"
#include "tools/values.h"

namespace millrace::tools {
namespace {

constexpr int kDefaultQuality = 90;
constexpr const char* kSources = "Source, one of these";

[[noreturn]] void refuse_source(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

decode::Extent made_size(const std::string& text) {
  const decode::Extent size = parse_extent("--size", text);
  const auto [least, most] = std::minmax(size.height, size.width);
  if (least < 8 || most > 4096)
    refuse_source("--size " + text + ": synthetic pictures are 8 to 4096");
  return size;
}

}  // namespace

void SourceOptions::declare(CLI::App& app) {
  app.option_defaults()->group(kSources);
  declare_files(app);
  app.option_defaults()->group("Synthetic samples");
  declare_synthetic(app);
  app.option_defaults()->group("Tables and lists");
  declare_table(app);
  app.option_defaults()->group("Images");
  declare_encoding(app);
  app.option_defaults()->group("Options");
}

void SourceOptions::declare_files(CLI::App& app) {
  app.add_option("--from-folder", folder_, "Folder of images, one sub-folder per class")
      ->transform(existing_folder())
      ->type_name("DIR");
  app.add_option("--from-csv", csv_.table, "CSV table with a header, one image file per row")
      ->transform(existing_file())
      ->type_name("FILE");
  app.add_option("--from-list", list_, "List of image files: PATH, or PATH<TAB or space>LABEL")
      ->transform(existing_file())
      ->type_name("FILE");
  app.add_option("--from-idx", idx_, "IDX files, gzipped or not")
      ->expected(2)
      ->transform(existing_file())
      ->type_name("IMAGES LABELS");
  app.add_option("--from-cifar", cifar_, "CIFAR-10's or CIFAR-100's own binary files")
      ->transform(existing_file())
      ->type_name("FILE.bin");
}

void SourceOptions::declare_table(CLI::App& app) {
  app.add_option("--path", csv_.path,
                 "CSV: a row's file, columns in braces: {Study}/{Series}/*{Image}.jpg")
      ->type_name("PATTERN");
  app.add_option(
         "--pair", pairs_,
         "Folder: add the file of the same name in DIR to each sample as field NAME: mask=labels")
      ->type_name("NAME=DIR");
  app.add_option("--root", csv_.root,
                 "Folder that paths in a CSV or list are relative to [its own folder]")
      ->transform(existing_folder())
      ->type_name("DIR");
  app.add_flag("--allow-outside", allow_outside_,
               "Pack files of a CSV or list that lie outside that folder, also through links");
  app.add_option("--key", csv_.key, "CSV: a row's key, columns in braces [the file's path]")
      ->type_name("PATTERN");
  app.add_option("--class", csv_.class_column, "CSV: the class's column, to cls")->type_name("COL");
  app.add_option("--labels", csv_.labels, "CSV: columns of numbers, to json {\"labels\": [...]}")
      ->type_name("COL");
  app.add_option("--columns", csv_.columns, "CSV: more columns for the json, by their names")
      ->type_name("COL");
  app.add_option("--group-by", csv_.group_by,
                 "CSV: the column whose rows folds keep together; synthetic patients: patient")
      ->type_name("COL");
}

void SourceOptions::declare_synthetic(CLI::App& app) {
  auto* kind = app.add_option("--synthetic", synthetic_.kind,
                              "classes: a shape's class; multilabel: many labels; scenes: masks "
                              "and depth; segments: one class per pixel")
                   ->group(kSources)
                   ->transform(one_of(synthetic_kinds()));
  app.add_option("--count", synthetic_.count, "Samples to make")
      ->transform(whole_number(1, kMaxCount))
      ->needs(kind);
  app.add_option("--classes", synthetic_.classes, "Classes or labels")
      ->transform(whole_number(1, 1 << 24))
      ->needs(kind);
  app.add_option_function<std::string>(
         "--size", [this](const std::string& text) { synthetic_.size = made_size(text); },
         "Their size: N, or height x width [32]")
      ->type_name("N|HxW")
      ->needs(kind);
  app.add_option("--seed", synthetic_.seed, "Their seed")->transform(seed_number())->needs(kind);
}

void SourceOptions::declare_encoding(CLI::App& app) {
  app.add_option("--format", format_,
                 "Format of images in the shards [files stay as they are, others are png]")
      ->transform(one_of(decode::standard_codecs()->written_formats()));
  app.add_option("--resize", resize_, "Images to this size: the shorter side N, or HxW")
      ->type_name("N|HxW");
  app.add_option("--quality", quality_, "Quality of jpg and webp [90]")
      ->transform(whole_number(1, 100))
      ->default_str("");
}

void SourceOptions::check() const {
  check_source();
  check_table();
  check_pairs();
  check_encoding();
  if (!synthetic_.kind.empty()) static_cast<void>(make_synthetic_source(synthetic()));
}

void SourceOptions::check_source() const {
  std::vector<std::string> given;
  if (!folder_.empty()) given.emplace_back("--from-folder");
  if (!csv_.table.empty()) given.emplace_back("--from-csv");
  if (!list_.empty()) given.emplace_back("--from-list");
  if (!idx_.empty()) given.emplace_back("--from-idx");
  if (!cifar_.empty()) given.emplace_back("--from-cifar");
  if (!synthetic_.kind.empty()) given.emplace_back("--synthetic");
  if (given.empty())
    refuse_source(
        "give a source: --from-folder, --from-csv, --from-list, --from-idx, --from-cifar or "
        "--synthetic");
  if (given.size() > 1)
    refuse_source(fmt::format("give only one source, not {}", fmt::join(given, ", ")));
}

std::vector<FolderPair> SourceOptions::pairs() const {
  std::vector<FolderPair> pairs;
  for (const std::string& text : pairs_) {
    pairs.push_back(parse_folder_pair(text));
    const std::string& name = pairs.back().field;
    if (std::count_if(pairs.begin(), pairs.end(),
                      [&](const FolderPair& other) { return other.field == name; }) > 1)
      refuse_source("--pair: two folders for the field " + name);
  }
  return pairs;
}

void SourceOptions::check_pairs() const {
  if (pairs_.empty()) return;
  if (folder_.empty()) refuse_source("--pair is for --from-folder");
  if (!resize_.empty())
    refuse_source(
        "--resize with --pair would leave images and pairs of different sizes: train's --size "
        "resizes both");
  static_cast<void>(pairs());
}

void SourceOptions::check_table() const {
  if (!csv_.table.empty() && csv_.path.empty())
    refuse_source("--from-csv needs --path, with columns in braces, to find a row's file");
  for (const std::string& name : csv_.columns)
    if (name == "labels" || name == "group")
      refuse_source("--columns " + name + " is the json's own name");
  const bool table = !csv_.table.empty();
  if (!table && !(csv_.path + csv_.key + csv_.class_column).empty())
    refuse_source("--path, --key and --class are for --from-csv");
  if (!table && !(csv_.labels.empty() && csv_.columns.empty()))
    refuse_source("--labels and --columns are for --from-csv");
  if (!table && list_.empty() && !csv_.root.empty())
    refuse_source("--root is for --from-csv and --from-list");
  if (!table && list_.empty() && allow_outside_)
    refuse_source("--allow-outside is for --from-csv and --from-list");
  const bool patients = synthetic_.kind == "multilabel" && csv_.group_by == "patient";
  if (!table && !csv_.group_by.empty() && !patients)
    refuse_source(
        "--group-by is for --from-csv, and for --synthetic multilabel as --group-by patient");
}

void SourceOptions::check_encoding() const {
  if (!resize_.empty()) static_cast<void>(parse_new_size(resize_));
  if (!resize_.empty() && !synthetic_.kind.empty())
    refuse_source("--resize is not for --synthetic: --size says how large to make");
  if (from_files() && quality_ != 0 && recoding().keeps())
    refuse_source("--quality needs --format or --resize: files stay as they are");
}

std::unique_ptr<SampleSource> SourceOptions::open(const Log& log) const {
  if (!folder_.empty())
    return open_folder_source({.folder = folder_, .pairs = pairs(), .recoding = recoding()}, log);
  if (!csv_.table.empty()) return open_csv_source(csv());
  if (!list_.empty())
    return open_list_source(
        {.list = list_, .root = csv_.root, .recoding = recoding(), .outside = outside()});
  if (!cifar_.empty())
    return open_cifar_source({.files = cifar_, .encoding = encoding(), .size = recoding().size});
  if (!idx_.empty())
    return open_idx_source(idx_[0], idx_[1], {.encoding = encoding(), .size = recoding().size});
  return make_synthetic_source(synthetic());
}

std::string SourceOptions::text() const {
  const std::vector<std::string> texts = {folder_,   csv_.table,        list_,          csv_.path,
                                          csv_.root, csv_.key,          csv_.group_by,  format_,
                                          resize_,   csv_.class_column, synthetic_.kind};
  return fmt::format("{}\n{} {} {} {} {}\n{} {} {} {}\nquality {}", texts, idx_, cifar_, pairs_,
                     csv_.labels, csv_.columns, synthetic_.count, synthetic_.classes,
                     extent_text(synthetic_.size), synthetic_.seed, quality_);
}

ImageEncoding SourceOptions::encoding() const {
  return {.format = format_.empty() ? "png" : format_,
          .quality = quality_ == 0 ? kDefaultQuality : quality_};
}

Recoding SourceOptions::recoding() const {
  return {.format = format_,
          .quality = encoding().quality,
          .size = resize_.empty() ? NewSize() : parse_new_size(resize_)};
}

CsvOptions SourceOptions::csv() const {
  CsvOptions options = csv_;
  options.recoding = recoding();
  options.outside = outside();
  return options;
}

SyntheticOptions SourceOptions::synthetic() const {
  SyntheticOptions options = synthetic_;
  options.encoding = encoding();
  return options;
}

}  // namespace millrace::tools
