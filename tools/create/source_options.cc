#include "tools/create/source_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <tuple>
#include <utility>

#include "decode/codec.h"
#include "io/base/error.h"
#include "tools/create/local_file.h"
#include "tools/create/renumbered_source.h"
#include "tools/create/repeated_files.h"
#include "tools/label_map.h"
#include "tools/parse.h"
#include "tools/values.h"
#include "wds/shard_spec.h"

namespace millrace::tools {
namespace {

constexpr int kDefaultQuality = 90;
constexpr const char* kSources = "Source, one of these";
constexpr std::array<Word<MaskKind>, 3> kMaskWords = {
    {{"", MaskKind::kNone}, {"classes", MaskKind::kClasses}, {"instances", MaskKind::kInstances}}};

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

/// The formats that take an option, for messages: "--from-csv and --from-list".
std::string takers_of(std::uint32_t option) {
  std::vector<std::string_view> takers;
  for (const SourceFormat& format : source_formats())
    if ((format.takes & option) != 0) takers.push_back(format.option);
  if (takers.size() < 2) return fmt::format("{}", fmt::join(takers, ""));
  const std::string_view last = takers.back();
  takers.pop_back();
  return fmt::format("{} and {}", fmt::join(takers, ", "), last);
}

/// The files that a word on the command line stands for.
std::vector<std::string> files_of(const std::string& word) {
  if (std::filesystem::is_regular_file(word)) return {word};
  std::vector<std::string> files = wds::expand_shards(word, {.allow_duplicates = true});
  for (const std::string& file : files)
    if (!std::filesystem::is_regular_file(file)) refuse_source("no file is " + file);
  return files;
}

}  // namespace

SourceOptions::SourceOptions() : inputs_(source_formats().size()) {}

void SourceOptions::declare(CLI::App& app) {
  app.option_defaults()->group(kSources);
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    declare_format(app, source_formats()[i], inputs_[i]);
  app.option_defaults()->group("Synthetic samples");
  declare_synthetic(app);
  app.option_defaults()->group("Tables, lists and records");
  declare_table(app);
  app.option_defaults()->group("Images");
  declare_encoding(app);
  app.option_defaults()->group("Options");
}

void SourceOptions::declare_format(CLI::App& app, const SourceFormat& format,
                                   std::vector<std::string>& inputs) {
  auto* option = app.add_option(std::string(format.option), inputs, std::string(format.sentence))
                     ->type_name(std::string(format.value));
  switch (format.input) {
    case SourceInput::kFolder:
      option->expected(1)->transform(existing_folder());
      break;
    case SourceInput::kFile:
      option->expected(1)->transform(existing_file());
      break;
    case SourceInput::kTwoFiles:
      option->expected(2)->transform(existing_file());
      break;
    case SourceInput::kFiles:  // may be patterns: looked for in paths()
      break;
  }
}

void SourceOptions::declare_table(CLI::App& app) {
  app.add_option("--path", path_pattern_,
                 "CSV: a row's file, columns in braces: {Study}/{Series}/*{Image}.jpg")
      ->type_name("PATTERN");
  app.add_option(
         "--pair", pairs_,
         "Folder: add the file of the same name in DIR to each sample as field NAME: mask=labels")
      ->type_name("NAME=DIR");
  app.add_option("--class-depth", class_depth_,
                 "Folder: levels of sub-folders that make a class, 2: animals/cat; all: every "
                 "folder with images [1]")
      ->type_name("N|all");
  app.add_option(
         "--label-map", label_map_,
         "Class names, one per line, by label: another set's classes.txt, so that a class has "
         "the same number in both [the classes found, sorted]")
      ->transform(existing_file())
      ->type_name("FILE");
  app.add_option("--root", root_,
                 "Folder that paths in a CSV, list or JSON are relative to [its own folder]")
      ->transform(existing_folder())
      ->type_name("DIR");
  app.add_flag(
      "--allow-outside", allow_outside_,
      "Pack files of a CSV, list or JSON that lie outside that folder, also through links");
  app.add_option("--images", columns_.images,
                 "Records: columns of pictures; the first is the sample's own, others NAME.png")
      ->type_name("COL");
  app.add_option("--key", columns_.key,
                 "A sample's key, columns in braces [CSV: the file's path; records: their number]")
      ->type_name("PATTERN");
  app.add_option("--class", columns_.class_column, "The class's column, to cls")->type_name("COL");
  app.add_option("--labels", columns_.labels, "Columns of numbers, to json {\"labels\": [...]}")
      ->type_name("COL");
  app.add_option("--columns", columns_.columns,
                 "More columns for the json, by their names; of records [all]")
      ->type_name("COL");
  app.add_option("--masks", masks_,
                 "COCO: a mask.png of the classes (0 none, 255 crowds) or of the instances")
      ->transform(one_of({"classes", "instances"}));
  app.add_option("--group-by", columns_.group_by,
                 "The column whose rows folds keep together; synthetic patients: patient")
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
  check_taken();
  check_table();
  check_encoding();
  if (made_up()) static_cast<void>(make_synthetic_source(synthetic()));
  if (format() != nullptr) static_cast<void>(paths());
}

void SourceOptions::check_source() const {
  std::vector<std::string> given;
  std::vector<std::string> known;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    known.emplace_back(source_formats()[i].option);
    if (!inputs_[i].empty()) given.push_back(known.back());
  }
  if (made_up()) given.emplace_back("--synthetic");
  if (given.empty())
    refuse_source(fmt::format("give a source: {} or --synthetic", fmt::join(known, ", ")));
  if (given.size() > 1)
    refuse_source(fmt::format("give only one source, not {}", fmt::join(given, ", ")));
}

const SourceFormat* SourceOptions::format() const {
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (!inputs_[i].empty()) return &source_formats()[i];
  return nullptr;
}

std::vector<std::string> SourceOptions::paths() const {
  const SourceFormat* own = format();
  const std::vector<std::string>& words =
      inputs_[static_cast<std::size_t>(own - source_formats().data())];
  if (own->input != SourceInput::kFiles) return words;
  std::vector<std::string> files;
  for (const std::string& word : words) {
    const auto some = files_of(word);
    files.insert(files.end(), some.begin(), some.end());
  }
  refuse_repeated_files(files);
  return files;
}

// What is given, and which formats take it.
void SourceOptions::check_taken() const {
  const bool patients = synthetic_.kind == "multilabel" && columns_.group_by == "patient";
  const std::array kOptions = std::to_array<std::tuple<const char*, std::uint32_t, bool>>({
      {"--path", kTakesPath, !path_pattern_.empty()},
      {"--pair", kTakesPairs, !pairs_.empty()},
      {"--class-depth", kTakesDepth, !class_depth_.empty()},
      {"--root", kTakesRoot, !root_.empty()},
      {"--allow-outside", kTakesRoot, allow_outside_},
      {"--images", kTakesImages, !columns_.images.empty()},
      {"--key", kTakesKey, !columns_.key.empty()},
      {"--class", kTakesClass, !columns_.class_column.empty()},
      {"--labels", kTakesLabels, !columns_.labels.empty()},
      {"--columns", kTakesLabels, !columns_.columns.empty()},
      {"--masks", kTakesMasks, !masks_.empty()},
      {"--group-by", kTakesGroups, !columns_.group_by.empty() && !patients},
  });
  const std::uint32_t taken = format() == nullptr ? 0 : format()->takes;
  for (const auto& [name, option, given] : kOptions) {
    if (!given || (taken & option) != 0) continue;
    const char* more =
        option == kTakesGroups ? ", and for --synthetic multilabel as --group-by patient" : "";
    refuse_source(fmt::format("{} is for {}{}", name, takers_of(option), more));
  }
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

void SourceOptions::check_table() const {
  const SourceFormat* own = format();
  if (own != nullptr && (own->takes & kTakesPath) != 0 && path_pattern_.empty())
    refuse_source(std::string(own->option) +
                  " needs --path, with columns in braces, to find a row's file");
  for (const std::string& name : columns_.columns)
    if (name == "labels" || name == "group")
      refuse_source("--columns " + name + " is the json's own name");
  if (!class_depth_.empty() && class_depth_ != "all" && number_or_zero(class_depth_) < 1)
    refuse_source("--class-depth " + class_depth_ + ": is a number of levels from 1, or all");
  static_cast<void>(pairs());
}

void SourceOptions::check_encoding() const {
  if (!resize_.empty()) static_cast<void>(parse_new_size(resize_));
  if (!resize_.empty() && made_up())
    refuse_source("--resize is not for --synthetic: --size says how large to make");
  if (!resize_.empty()) check_resized_by("--resize");
  const bool keeps = format() != nullptr && (format()->takes & kKeepsFiles) != 0;
  if (keeps && quality_ != 0 && recoding().keeps())
    refuse_source("--quality needs --format or --resize: files stay as they are");
}

void SourceOptions::check_resized_by(const std::string& option) const {
  if (pairs_.empty() && masks_.empty() && columns_.images.size() < 2) return;
  refuse_source(
      fmt::format("{} with {} would leave images and {} of different sizes: train's --size resizes "
                  "both",
                  option,
                  !pairs_.empty()   ? "--pair"
                  : !masks_.empty() ? "--masks"
                                    : "a second --images",
                  !pairs_.empty()   ? "pairs"
                  : !masks_.empty() ? "masks"
                                    : "those"));
}

SourceRequest SourceOptions::request() const {
  return {.paths = paths(),
          .columns = columns_,
          .path_pattern = path_pattern_,
          .root = root_,
          .outside = allow_outside_ ? Outside::kAllowed : Outside::kRefused,
          .pairs = pairs(),
          .class_depth = class_depth_.empty() ? 1 : static_cast<int>(number_or_zero(class_depth_)),
          .masks = value_of("--masks", masks_, kMaskWords),
          .recoding = recoding(),
          .encoding = encoding()};
}

std::unique_ptr<SampleSource> SourceOptions::open(const Log& log) const {
  std::unique_ptr<SampleSource> source = open_as_found(log);
  if (label_map_.empty()) return source;
  return renumbered_source(std::move(source), read_names(io::UrlOpener(), local_url(label_map_)),
                           label_map_);
}

std::unique_ptr<SampleSource> SourceOptions::open_as_found(const Log& log) const {
  if (made_up()) return make_synthetic_source(synthetic());
  SourceRequest own = request();
  own.log = log;
  return format()->open(own);
}

std::string SourceOptions::text() const {
  const std::vector<std::string> texts = {
      path_pattern_,         root_,        columns_.key, columns_.group_by, format_, resize_,
      columns_.class_column, class_depth_, masks_,       synthetic_.kind};
  return fmt::format("{}\n{} {} {} {} {}\n{} {} {} {}\nquality {}", texts, inputs_, pairs_,
                     columns_.images, columns_.labels, columns_.columns, synthetic_.count,
                     synthetic_.classes, extent_text(synthetic_.size), synthetic_.seed, quality_);
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

SyntheticOptions SourceOptions::synthetic() const {
  SyntheticOptions options = synthetic_;
  options.encoding = encoding();
  return options;
}

}  // namespace millrace::tools
