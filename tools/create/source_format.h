// SourceFormat: one kind of source of `create`, which is one line in source_formats(): the option
// that names its inputs, the other options that it takes, and how it is opened.
//
//   {.option = "--from-mds", .value = "DIR", .input = SourceInput::kFolder, .takes =
//   kRecordOptions,
//    .sentence = "Folder of MosaicML's MDS shards", .open = open_mds_source},
//
// A new kind is one file in tools/create/formats and one such line. What is given to a format that
// does not take it is refused, with the names of those that do.
//
// Threads: free functions, callable from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/log.h"
#include "tools/create/folder_fence.h"
#include "tools/create/image_file.h"
#include "tools/create/pair_folder.h"
#include "tools/create/sample_source.h"

namespace millrace::tools {

/// Which columns of a table or record become what.
struct ColumnOptions {
  /// Encoded pictures or raw pixels; the first gives the sample's own picture.
  std::vector<std::string> images = {};
  std::string class_column = {};
  /// A key with columns in braces.
  std::string key = {};
  std::vector<std::string> labels = {};
  std::vector<std::string> columns = {};
  /// The column of groups, which folds keep together.
  std::string group_by = {};

  /// Whether no column is named.
  bool takes_all() const {
    return images.empty() && class_column.empty() && labels.empty() && columns.empty();
  }
};

/// What COCO's segmentations become.
enum class MaskKind { kNone, kClasses, kInstances };

/// What the command line says of the source.
struct SourceRequest {
  /// Files or a folder, as they were given, wild cards filled in.
  std::vector<std::string> paths;
  ColumnOptions columns = {};
  /// A row's file, with columns in braces and wild cards (tools/create/file_finder.h).
  std::string path_pattern = {};
  /// What the files named by a table or list are relative to; empty: its own folder.
  std::string root = {};
  Outside outside = Outside::kRefused;
  std::vector<FolderPair> pairs = {};
  /// Levels of folders that make up a class's name; 0: all of them.
  int class_depth = 1;
  MaskKind masks = MaskKind::kNone;
  Recoding recoding = {};
  /// Of pixels that come without a format.
  ImageEncoding encoding = {};
  Log log = {};
};

/// Options that only some formats take, as bits.
enum SourceOption : std::uint32_t {
  kTakesPath = 1U << 0U,
  kTakesPairs = 1U << 1U,
  kTakesRoot = 1U << 2U,
  kTakesKey = 1U << 3U,
  kTakesClass = 1U << 4U,
  kTakesLabels = 1U << 5U,
  kTakesGroups = 1U << 6U,
  kTakesImages = 1U << 7U,
  kTakesDepth = 1U << 8U,
  kTakesMasks = 1U << 9U,
  /// Pictures are files that pass unchanged unless they are re-encoded.
  kKeepsFiles = 1U << 10U,
};

/// What follows the option.
enum class SourceInput { kFolder, kFile, kTwoFiles, kFiles };

struct SourceFormat {
  std::string_view option;
  /// For --help: "DIR", "FILE".
  std::string_view value;
  SourceInput input;
  /// SourceOption's bits.
  std::uint32_t takes;
  std::string_view sentence;
  std::unique_ptr<SampleSource> (*open)(const SourceRequest& request);
};

/// All but synthetic data, in the order of --help.
std::span<const SourceFormat> source_formats();

}  // namespace millrace::tools
