// CheckpointPlace: where checkpoints are written: a folder on a disk, or in an object store.
//
// On a disk a checkpoint is a folder that is renamed into place (checkpoint_folder.h). In a store
// nothing is renamed: its files are objects whose names have the content's hash
// (last/model-3f2a9c0d11e2b3a4.safetensors), so that those of the checkpoint that is replaced stay;
// then the manifest is replaced, which names the objects and makes the new checkpoint valid; then
// the old objects are removed. A run that is killed leaves the one or the other, whole, and objects
// that the next save of that name removes.
//
// A store's checkpoints are copied to memory and sent beside the next steps. At most two are in
// memory: the next save waits.
//
// Threads: one at a time.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "io/opener.h"
#include "trainer/detail/store/checkpoint_folder.h"
#include "trainer/events.h"

namespace millrace::trainer::detail {

class CheckpointPlace {
 public:
  /// Each is called within a call of a member.
  struct Hooks {
    /// With the path of each complete checkpoint.
    std::function<void(const std::string& path)> saved;
    /// With each that could not be removed: one too many does not end a run.
    std::function<void(const std::string& path, const std::string& why)> kept;
    /// Of the checkpoint that is written, or that the call waits for.
    std::function<void(const CheckpointStep& step)> progress;
  };

  virtual ~CheckpointPlace() = default;

  /// Writes a checkpoint, replacing an earlier one. Throws: Io; of a store also in a later call.
  virtual void save(const std::string& name, const CheckpointFiles& files) = 0;
  /// Removes a checkpoint, or calls Hooks::kept; of a store also in a later call.
  virtual void remove(const std::string& name) = 0;
  /// Calls Hooks for what has been done since the last call of any member.
  virtual void report() {}
  /// Returns when all checkpoints are complete. Throws: Io.
  virtual void finish() {}
};

/// Checkpoints in `folder`. Lifetime: `opener` is borrowed.
std::unique_ptr<CheckpointPlace> open_checkpoint_place(const std::string& folder,
                                                       const io::Opener& opener,
                                                       const std::stop_token& stop,
                                                       CheckpointPlace::Hooks hooks);

}  // namespace millrace::trainer::detail
