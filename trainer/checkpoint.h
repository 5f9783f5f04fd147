// Checkpoint: a folder from which a run goes on as if nothing had happened.
//
//   last/  model.safetensors      parameters and running statistics, torchvision's names
//          optimizer.safetensors  the optimizer's state: "momentum_buffer.conv1.weight"
//          ema.safetensors        with an EMA of the weights: as model.safetensors
//          state.json             epoch, step, best value, seed, position of the input, what the
//                                 input is
//          manifest.json          each file's size and SHA-256, written last
//
// It is written under a temporary name, synced, read back and renamed: a reader sees the old one or
// the new one, whole. Between the two renames of a replacement the old one is `last.previous`;
// load_checkpoint() finds it there.
//
// What lies at a url is read through an opener, which says how long to try and when to stop.
//
// Threads: one at a time a folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/base/log.h"
#include "io/opener.h"
#include "pipeline/data_identity.h"
#include "trainer/safetensors.h"
#include "trainer/weights.h"

namespace millrace::trainer {

/// What state.json holds: all that a run needs beside tensors.
struct TrainState {
  std::string model = {};
  std::int64_t epoch = 0;          ///< epochs finished: the one to go on with, from 0
  std::int64_t step_in_epoch = 0;  ///< steps of that epoch already taken
  std::int64_t global_step = 0;    ///< optimizer steps taken over the run
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
  /// Where all processes together stand in their input, as JSON; empty at an epoch's start.
  std::string position = {};
  std::string meters = {};  ///< the epoch's running sums as JSON, in mid-epoch
  /// The training set, and what fixes its order; nothing where the feed does not know.
  std::optional<pipeline::DataIdentity> data = {};
  std::string options = {};  ///< options as run, as JSON, to be compared and read by people

  /// Samples of a step over all devices; 0: not known.
  std::int64_t global_batch() const { return world * batch_size * accumulate; }

  std::string to_json() const;
  /// Throws: Corrupt for anything but a state that a run could have written, naming the value.
  static TrainState from_json(const std::string& text);
};

/// What is written or read, borrowed.
struct CheckpointTensors {
  std::vector<FlatTensors> model;      ///< parameters, buffers
  std::vector<FlatTensors> optimizer;  ///< one a state buffer, prefix "momentum_buffer."
  std::vector<FlatTensors> ema = {};   ///< parameters' EMA, buffers; empty: none
};

/// Writes `folder`/`name`, replacing the one before only when the new one has been read back.
/// Throws: Io with path and errno's text; what was there before is intact.
void save_checkpoint(const std::string& folder, const std::string& name, const TrainState& state,
                     const CheckpointTensors& tensors);

/// Reads the checkpoint at `path` (a folder, or its url); each file is checked against the
/// manifest, and all tensors' names and shapes before one of them is copied. Throws: NotFound,
/// Truncated, Corrupt; InvalidArgument for another model's, naming both.
TrainState load_checkpoint(const std::string& path, const std::string& model,
                           const CheckpointTensors& tensors,
                           const io::Opener& opener = io::UrlOpener());

/// Only state.json; a folder is checked as load_checkpoint() does, a url as to that file.
TrainState read_checkpoint_state(const std::string& path,
                                 const io::Opener& opener = io::UrlOpener());

/// The model to use rather than to train on: ema.safetensors where there is one, else
/// model.safetensors, which fit the tables of `like`; their values are not touched and may be
/// empty, so that nobody allocates what a checkpoint claims before it is checked. Throws: as
/// load_checkpoint().
Safetensors read_checkpoint_model(const std::string& path, const std::string& model,
                                  const std::vector<FlatTensors>& like,
                                  const io::Opener& opener = io::UrlOpener());
/// The same, copied. Throws: as load_checkpoint().
void load_checkpoint_model(const std::string& path, const std::string& model,
                           const std::vector<FlatTensors>& into,
                           const io::Opener& opener = io::UrlOpener());

/// The checkpoint that `path` means: itself, or where it is a run's folder (or its url, or that of
/// uploaded checkpoints) the one called `name` in it, "best" or "last", or the other of the two.
/// `path` where there is none. Throws: what the network throws.
std::string find_checkpoint(const std::string& path, const std::string& name,
                            const io::Opener& opener = io::UrlOpener());

/// Ends what a run that was killed as it replaced a checkpoint left undone: the checkpoint that is
/// missing under its name comes back, with a line in `log`. Requires: nobody writes there. Throws:
/// Io.
void recover_checkpoints(const std::string& folder, const Log& log);

/// The newest whole checkpoint under `folder` (`--resume auto`), most steps first; empty when
/// there is none. Broken or incomplete ones are passed over with a line in `log`.
std::string find_newest_checkpoint(const std::string& folder, const Log& log);

}  // namespace millrace::trainer
