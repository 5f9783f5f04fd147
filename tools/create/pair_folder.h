// PairFolder: a folder whose files belong to the images of another one, by their names.
//
//   PairFolder masks({.field = "mask", .folder = "labels"});
//   masks.take("2007_000032", "images/2007_000032.jpg");   // "labels/2007_000032.png"
//
// The file of an image at "DIR/a/b.jpg" is the one at "a/b" below the folder, whatever its suffix.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

namespace millrace::tools {

struct FolderPair {
  std::string field;  ///< what its files are called in a sample: "mask" gives "mask.png"
  std::string folder;
};

/// "mask=labels". Throws: InvalidArgument for a name that no field can have, or no such folder.
FolderPair parse_folder_pair(const std::string& text);

class PairFolder {
 public:
  /// Lists the folder and what is below it, hidden files left out. Throws: NotFound, Io.
  explicit PairFolder(const FolderPair& pair);

  /// The path of the file that belongs to `image`, whose path below its own folder is `stem` and a
  /// suffix. Throws: NotFound (none), InvalidArgument (several).
  std::string take(const std::string& stem, const std::string& image);
  /// Files that no image asked for.
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
