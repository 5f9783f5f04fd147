// Checkpoint: a folder from which a run continues bit for bit.
//
//   last/  model.safetensors      parameters and running statistics, torchvision's names
//          optimizer.safetensors  the optimizer's state: "momentum_buffer.conv1.weight"
//          ema.safetensors        with an EMA of the weights: as model.safetensors
//          state.json             epoch, step, best value, seed, the input's position and identity
//          manifest.json          each file's size and SHA-256, written last
//
// It is written under a temporary name, synced, read back and renamed: a reader sees the old one or
// the new one, complete. Between the two renames of a replacement the old one is `last.previous`,
// where load_checkpoint() finds it.
//
// In a store, where nothing is renamed, its objects' names have the content's hash, and the
// manifest names them: writing that one replaces the checkpoint (detail/store/checkpoint_place.h).
//
// A checkpoint at a url is read through an opener, which sets how long to retry and when to stop.
//
// Threads: one call per folder at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/base/log.h"
#include "io/opener.h"
#include "pipeline/data_identity.h"
#include "trainer/safetensors.h"
#include "trainer/setting.h"
#include "trainer/weights.h"

namespace millrace::trainer {

/// The content of state.json: all that a run needs beside tensors.
struct TrainState {
  /// The run's own mark, which it keeps when it is resumed; in manifest.json, not in state.json.
  std::string run = {};
  std::string model = {};
  std::int64_t epoch = 0;          ///< epochs finished: the one to continue with, from 0
  std::int64_t step_in_epoch = 0;  ///< steps of that epoch already taken
  std::int64_t global_step = 0;    ///< optimizer steps taken over the run
  /// Of these, those that changed nothing: the rule does not count them. 0 in earlier checkpoints.
  std::int64_t skipped_updates = 0;
  std::uint64_t seed = 0;
  int world = 1;
  std::int64_t batch_size = 0;  ///< per device; 0: not known
  std::int64_t accumulate = 1;  ///< batches of a device in a step
  std::string optimizer = {};
  std::string monitor = {};
  std::optional<double> best = {};
  std::int64_t best_epoch = 0;  ///< from 1; 0 is none
  /// The best k epochs' checkpoints by name, with their values, best first.
  std::vector<std::pair<std::string, double>> top = {};
  /// The position of all processes together in their input, as JSON; empty at an epoch's start.
  std::string position = {};
  std::string meters = {};  ///< the epoch's running sums as JSON, in mid-epoch
  /// The training set and what fixes its order; nullopt if the feed cannot tell.
  std::optional<pipeline::DataIdentity> data = {};
  /// Likewise of the validation set, whose order does not matter; without shards if there is none.
  std::optional<pipeline::DataIdentity> validation = {};
  std::string options = {};            ///< TrainOptions::config_json
  std::vector<Setting> settings = {};  ///< what a run that is resumed is compared with
  /// Before the first step: its weights are of a file, so that none is to be taken from the data.
  bool has_init = false;

  /// Samples of a step over all devices; 0: not known.
  std::int64_t global_batch() const { return world * batch_size * accumulate; }

  std::string to_json() const;
  /// Throws: Corrupt for a state that no run could have written, naming the value.
  static TrainState from_json(const std::string& text);
};

/// The tensors to be written or read, borrowed.
struct CheckpointTensors {
  std::vector<FlatTensors> model;      ///< parameters, buffers
  std::vector<FlatTensors> optimizer;  ///< one per state buffer, prefix "momentum_buffer."
  std::vector<FlatTensors> ema = {};   ///< parameters' EMA, buffers; empty: none
};

/// Writes `folder`/`name`, replacing an earlier one only after the new one has been read back.
/// `folder` may be the url of a store that `opener` lists and writes; it checks what it gets.
/// Throws: Corrupt if the model has a value that is not finite; Io with path and errno's text. An
/// earlier one is then intact.
void save_checkpoint(const std::string& folder, const std::string& name, const TrainState& state,
                     const CheckpointTensors& tensors, const io::Opener& opener = io::UrlOpener());

/// Copies the checkpoint `from` to `folder`/`name`, each a path or a url of `opener`, and compares
/// its files on the way. Whenever it ends, there is the checkpoint that was there before
/// or the new one, whole. Throws: as load_checkpoint(), and as io::Opener::open_sink().
void copy_checkpoint(const std::string& from, const std::string& folder, const std::string& name,
                     const io::Opener& opener);

/// Reads the checkpoint at `path` (a folder, or its url) into `tensors`, of which an empty list is
/// not read. Each file is checked against the manifest, and all tensors' names and shapes before
/// any is copied. Without ema.safetensors the EMA is the weights. Throws: NotFound, Truncated,
/// Corrupt; InvalidArgument for another model's, naming both.
TrainState load_checkpoint(const std::string& path, const std::string& model,
                           const CheckpointTensors& tensors,
                           const io::Opener& opener = io::UrlOpener());

/// Reads state.json alone. In a local folder all files are checked against the manifest, at a url
/// that one. Throws: NotFound, Truncated, Corrupt.
TrainState read_checkpoint_state(const std::string& path,
                                 const io::Opener& opener = io::UrlOpener());

/// The model for evaluation: ema.safetensors if there is one, else model.safetensors, checked
/// against the tables of `like`. Its values are not used and may be empty, so that nothing need be
/// allocated before the checkpoint is checked. Embeddings of positions of another square grid are
/// resized (Parameter::grid_height). Throws: as load_checkpoint().
Safetensors read_checkpoint_model(const std::string& path, const std::string& model,
                                  const std::vector<FlatTensors>& like,
                                  const io::Opener& opener = io::UrlOpener());
/// Copies the tensors of read_checkpoint_model() to `into`. Throws: as load_checkpoint().
void load_checkpoint_model(const std::string& path, const std::string& model,
                           const std::vector<FlatTensors>& into,
                           const io::Opener& opener = io::UrlOpener());

/// Whether `path`, a folder or a url, is a checkpoint, readable or damaged. Throws: network faults
/// but NotFound.
bool is_checkpoint(const std::string& path, const io::Opener& opener = io::UrlOpener());

/// The path of the checkpoint that `path` stands for: `path` itself, or if it is a run's folder (or
/// its url, or that of uploaded checkpoints) the one in it called `name`, "best" or "last", or else
/// the other of the two, which `log` is warned of. Returns `path` if there is none. Throws: network
/// faults but NotFound.
std::string find_checkpoint(const std::string& path, const std::string& name,
                            const io::Opener& opener = io::UrlOpener(), const Log& log = {});

/// Completes the replacements that were interrupted when a run was killed: a checkpoint that is
/// missing under its name is renamed back to it, with a line in `log`. Requires: nobody writes to
/// `folder`. Throws: Io.
void recover_checkpoints(const std::string& folder, const Log& log);

/// The mark of the run that wrote the checkpoint at `path` (TrainState::run), by its manifest
/// alone; empty if none says. Throws: network faults.
std::string checkpoint_run(const std::string& path, const io::Opener& opener = io::UrlOpener());

/// What find_newest_checkpoint() has found.
struct NewestCheckpoint {
  std::string path = {};            ///< empty: there is none
  std::vector<Error> skipped = {};  ///< why the others that were finished are of no use
};

/// The intact checkpoint in `folder`, which may be a store's url, with the most steps (`--resume
/// auto`). Damaged or incomplete ones, and those of another run than that of `last`, are skipped
/// with a warning in `log`, those that were never finished with a line; in a store files' sizes are
/// compared. Throws: network faults.
NewestCheckpoint find_newest_checkpoint(const std::string& folder, const Log& log,
                                        const io::Opener& opener = io::UrlOpener());

}  // namespace millrace::trainer
