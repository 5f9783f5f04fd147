// PairFolder: a folder whose files are matched by name to the images of another one.
//
//   PairFolder masks({.field = "mask", .folder = "labels"});
//   masks.take("2007_000032", "images/2007_000032.jpg");   // "labels/2007_000032.png"
//
// The file for an image at "DIR/a/b.jpg" is the one at "a/b" below the folder, with any suffix.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

namespace millrace::tools {

struct FolderPair {
  std::string field;  ///< name of its files in a sample: "mask" gives "mask.png"
  std::string folder;
};

/// Parses "mask=labels". Throws: InvalidArgument for an invalid field name, or a missing folder.
FolderPair parse_folder_pair(const std::string& text);

class PairFolder {
 public:
  /// Lists the folder recursively, without hidden files. Throws: NotFound, Io.
  explicit PairFolder(const FolderPair& pair);

  /// The path of the file for `image`, whose path below its own folder is `stem` plus a suffix.
  /// Throws: NotFound (none), InvalidArgument (several).
  std::string take(const std::string& stem, const std::string& image);
  /// Number of files that match no image.
  std::uint64_t left_out() const;
  const FolderPair& pair() const { return pair_; }

 private:
  struct File {
    std::string path;
    std::string other = {};  ///< a second one with this stem
    bool taken = false;
  };

  FolderPair pair_;
  std::unordered_map<std::string, File> files_;
};

}  // namespace millrace::tools
