// A checkpoint's folder as files: written under a temporary name with a manifest of hashes,
// checked, swapped in; read only after it has been checked.
//
// Threads: one at a time a folder.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "io/byte_sink.h"
#include "io/bytes.h"

namespace millrace::trainer::detail {

/// Files of a checkpoint by name, whole.
using FolderFiles = std::map<std::string, io::Bytes>;

/// Writes one file's content.
using FileWriter = std::function<void(io::ByteSink&)>;

/// Writes `files` as `parent`/`name`. What was there before stays until the new folder has been
/// read back, and is called `name`.previous for the moment between two renames.
void write_folder(const std::string& parent, const std::string& name,
                  const std::map<std::string, FileWriter>& files);

/// Everything in the folder, or the file called `only`, checked against its manifest. `path` may be
/// a url of http(s), s3 or gs. When a local one is missing, `path`.previous is read.
/// Throws: NotFound, Truncated, Corrupt, Io.
FolderFiles read_folder(const std::string& path, const std::string& only = "");

}  // namespace millrace::trainer::detail
