// RunFiles: where a run writes its files, other than checkpoints: a folder on a disk, or in an
// object store.
//
// On a disk each line is there at once. An object of a store cannot grow: its text is kept in
// memory and sent whole, 30 s after a line that was not sent yet, and no more than 1 MB each second
// over time, so that a killed run loses the lines of its last 30 s (of a log of 100 MB, 100 s).
//
// Threads: each file and write() one at a time; different files from different threads.
#pragma once

#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "io/append_file.h"
#include "io/base/log.h"
#include "io/opener.h"

namespace millrace::trainer {

class RunFiles {
 public:
  virtual ~RunFiles() = default;

  /// Replaces the file `name`. Throws: Io, of a store in a later call.
  virtual void write(const std::string& name, const std::string& text) = 0;
  /// The file `name`, with what an earlier run wrote. Lifetime: within this object's. Throws: Io.
  virtual std::unique_ptr<io::AppendFile> append(const std::string& name) = 0;
  /// Returns when everything is in its place; without it, a destructor tries to. Throws: Io.
  virtual void finish() {}
};

/// Creates the folder, if it is on a disk. `log`: told once when a store is waited for over two
/// seconds. Lifetime: `opener` is borrowed. Throws: Io.
std::unique_ptr<RunFiles> open_run_files(const std::string& folder, const io::Opener& opener,
                                         const std::stop_token& stop, const Log& log = {});

/// Writes an object from memory, replacing what is there. Throws: as io::Opener::open_sink().
void put_object(const io::Opener& opener, const std::string& url, std::span<const std::byte> bytes,
                const std::stop_token& stop);

}  // namespace millrace::trainer
