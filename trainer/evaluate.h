// evaluate: exact evaluation of a checkpoint: every sample once, on any number of devices and
// processes.
//
//   const EvalResult result = evaluate({.model = model, .objective = objective, .feed = feed,
//                                       .devices = threads}, {.weights = "run/checkpoints/best"});
//
// Threads: call from one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "io/base/log.h"
#include "io/opener.h"
#include "trainer/backend.h"
#include "trainer/cluster.h"
#include "trainer/events.h"
#include "trainer/feed.h"
#include "trainer/model.h"
#include "trainer/objective.h"
#include "trainer/observer.h"
#include "trainer/replicas.h"

namespace millrace::trainer {

struct EvalOptions {
  nn::Precision precision = nn::Precision::kBFloat16;
  /// A checkpoint's folder or URL, or a .safetensors file with the model's weights. Required.
  std::string weights = {};
  /// Reads `weights` from a url. Null: an io::UrlOpener that ends with `stop`.
  std::shared_ptr<const io::Opener> opener = {};
  std::stop_token stop = {};
  Log log = {};
  /// predict(): int64 batch fields to return with each sample's outputs.
  std::vector<std::string> carried = {};
};

/// What is evaluated, on what; borrowed.
struct EvalInput {
  const Model& model;
  const Objective& objective;
  Feed& feed;  ///< this process's share of the samples
  ReplicaThreads& devices;
  Backend* backend = nullptr;  ///< null: the CPU's
  /// The processes that work together. Null: this one alone, with its devices.
  Cluster* cluster = nullptr;
};

struct EvalResult {
  NamedValues values;
  std::int64_t samples = 0;
  std::int64_t skipped = 0;  ///< by the fault policy, of all processes
  double seconds = 0;
};

/// Scores every sample once, for any number of processes and devices and a last batch that is not
/// full. Returns the same result on every process; process 0 reads the weights. Of the observers
/// only on_evaluation_step() is called, in process 0. Throws: NotFound, Corrupt, InvalidArgument
/// for `weights`; Corrupt, with the number of samples, if outputs or the loss are not finite;
/// Exhausted without a sample; Cancelled after any process's stop; a feed's fault, on every
/// process.
EvalResult evaluate(const EvalInput& input, const EvalOptions& options,
                    const std::vector<Observer*>& observers = {});

}  // namespace millrace::trainer
