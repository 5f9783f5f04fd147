// A folder of images: a sub-folder a class, the classes' names sorted, as torchvision's ImageFolder
// takes it; or, without sub-folders, images without labels.
//
// A sample's key is the file's path inside the folder without its suffix, dots in the file's name
// replaced by underscores; its fields are the file's bytes (as they are unless a Recoding asks
// otherwise), the class number ("cls"), and from each paired folder the file of the same name but
// for the suffix, as it is ("mask.png"). Hidden files and files that are not images by their
// suffix are left out and counted.
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
  Recoding recoding = {};
};

/// Lists the folder. Throws: InvalidArgument when there is no image, when images lie beside class
/// folders, when two files have one key, or a key is not UTF-8; NotFound when an image has no pair.
std::unique_ptr<SampleSource> open_folder_source(const FolderOptions& options, const Log& log);

}  // namespace millrace::tools
