// A folder of images: one sub-folder per class, the class names sorted, as for torchvision's
// ImageFolder, also of several levels ("animals/cat"); or, without sub-folders, images without
// labels.
//
// A sample's key is the file's path inside the folder without its suffix, with dots in the file's
// name replaced by underscores. Its fields are the file's bytes (unchanged unless a Recoding is
// given), the class number ("cls"), and from each paired folder the file of the same name with any
// suffix, unchanged ("mask.png"). Hidden files and files without an image suffix are skipped and
// counted.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/base/log.h"
#include "tools/create/image_file.h"
#include "tools/create/pair_folder.h"
#include "tools/create/sample_source.h"

namespace millrace::tools {

struct FolderOptions {
  std::string folder;
  std::vector<FolderPair> pairs = {};
  /// Levels of sub-folders whose names make up the class's, "animals/cat" for 2; 0: all, so that
  /// every folder with images is a class.
  int class_depth = 1;
  Recoding recoding = {};
};

/// Lists the folder. Throws: InvalidArgument if there is no image, images are above class
/// folders, two files have the same key, or a key is not UTF-8; NotFound if an image has no pair.
std::unique_ptr<SampleSource> open_folder_source(const FolderOptions& options, const Log& log);

}  // namespace millrace::tools
