// evaluate: exact evaluation of a checkpoint: every sample once, on any number of devices.
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
  /// What `weights` is read through where it is a url. Null: an io::UrlOpener that ends with
  /// `stop`.
  std::shared_ptr<const io::Opener> opener = {};
  std::stop_token stop = {};
  Log log = {};
  /// predict(): int64 fields of the batch that come with each sample's outputs.
  std::vector<std::string> carried = {};
};

struct EvalInput {
  const Model& model;
  const Objective& objective;
  Feed& feed;
  ReplicaThreads& devices;
  Backend* backend = nullptr;  ///< null: the CPU's
};

struct EvalResult {
  NamedValues values;
  std::int64_t samples = 0;
  std::int64_t skipped = 0;  ///< by the fault policy
  double seconds = 0;
};

/// Scores every sample once, whatever the number of devices and the last batch's fill.
EvalResult evaluate(const EvalInput& input, const EvalOptions& options,
                    const std::vector<Observer*>& observers = {});

}  // namespace millrace::trainer
