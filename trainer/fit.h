// fit: the training loop, the trainer's front door.
//
// One replica a device, on the device's own thread, all of a process with one set of weights: a
// step is forward, loss, backward with the gradients' reduction beside it, then each replica
// updates its slices of the weights, which processes send each other. The loss is the mean over the
// valid samples of all replicas; running statistics are averaged over the replicas every step, so
// that a checkpoint of them is all there is to know.
//
//   GraphModel model("lenet", build_model("lenet", {.num_classes = 10}));
//   LossObjective objective;
//   LoaderFeed train(train_options, devices), val(val_options, devices);
//   DeviceThreads threads(devices);
//   const FitResult result = fit({.model = model, .objective = objective, .train = train,
//                                 .validation = &val, .devices = threads},
//                                {.epochs = 3, .run_folder = "runs/lenet"}, {&bar, &json});
//
// Several processes train together when each calls fit() with its own Cluster, the same options and
// its own share of the data (PipelineOptions::split). Process 0 decides, writes and reports; of the
// others only the stop is heard.
//
// Threads: call from one thread; it returns when every replica has ended.
#pragma once

#include <string>
#include <vector>

#include "trainer/backend.h"
#include "trainer/cluster.h"
#include "trainer/events.h"
#include "trainer/feed.h"
#include "trainer/model.h"
#include "trainer/objective.h"
#include "trainer/observer.h"
#include "trainer/replicas.h"
#include "trainer/train_options.h"

namespace millrace::trainer {

/// What is trained, on what; borrowed.
struct FitInput {
  const Model& model;
  const Objective& objective;
  Feed& train;                 ///< this process's share of the samples; likewise:
  Feed* validation = nullptr;  ///< null: no evaluation
  ReplicaThreads& devices;
  /// Called once, when the devices are there and before anything is placed on them. The number of
  /// parameters before it and after it is logged, as a warning: tying may be meant, losing is not.
  TieHook tie = {};
  Backend* backend = nullptr;  ///< null: the CPU's
  /// The processes that train together. Null: this one alone, with its devices.
  Cluster* cluster = nullptr;
};

/// The same on every process, but for seconds.
struct FitResult {
  EndEvent end;
  std::vector<EpochEvent> epochs;  ///< of this call
  std::string last_checkpoint;     ///< empty: none was written
  std::string best_checkpoint;
};

/// Throws: InvalidArgument (options, a checkpoint of another model) before anything is written, on
/// every process; otherwise the first replica's or the input's Error, within a second of it. The
/// other processes throw an Error that names the process and its reason. `observers` are told in
/// process 0 alone.
FitResult fit(const FitInput& input, const TrainOptions& options,
              const std::vector<Observer*>& observers = {});

}  // namespace millrace::trainer
