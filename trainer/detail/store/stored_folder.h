// A checkpoint's files as objects of a store; checkpoint_place.h says how they are replaced.
//
// Threads: one at a time per folder.
#pragma once

#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "io/bytes.h"
#include "io/opener.h"
#include "trainer/detail/store/checkpoint_folder.h"

namespace millrace::trainer::detail {

/// A file to be stored.
struct StoredFile {
  std::function<ManifestEntry()> entry;  ///< hashes it, if nobody has
  FileWriter write;
};
struct StoredFiles {
  std::map<std::string, StoredFile> files = {};  ///< by their names
  std::string run = {};
};

/// What the writers write.
StoredFiles in_memory(const CheckpointFiles& files);
/// The files of another checkpoint. Lifetime: `folder` is borrowed.
StoredFiles files_of(const FolderReader& folder);

/// Writes the checkpoint at the url `path`, replacing an earlier one. Where objects cannot be
/// listed (http://), each file has two names in turn, because what is left over cannot be found.
/// Throws: as io::Opener::open_sink() and list().
void write_stored_folder(const io::Opener& opener, const std::string& path,
                         const StoredFiles& files, const std::stop_token& stop);

/// Removes the checkpoint at the url `path`, its manifest first. Throws: as io::Opener::list().
void remove_stored_folder(const io::Opener& opener, const std::string& path,
                          const std::stop_token& stop);

/// The urls of the folders below the url `parent` all of whose checkpoints' objects are there, by
/// their manifests, sorted; `damaged` is called with the error of each of the others. Throws: as
/// io::Opener::list().
std::vector<std::string> whole_stored_folders(const io::Opener& opener, const std::string& parent,
                                              const std::function<void(const Error&)>& damaged);

}  // namespace millrace::trainer::detail
