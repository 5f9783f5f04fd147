// fit: the training loop.
//
// There is one replica per device, on the device's own thread; the replicas of a process share one
// set of weights. A step is forward, loss, and backward with the gradients' reduction beside it;
// then each replica updates its slices of the weights, which the processes exchange. The loss is
// the mean over the valid samples of all replicas; running statistics are averaged over the
// replicas every step, so that one copy of them is the whole state.
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
// its own share of the data (PipelineOptions::split). Process 0 decides, writes and reports; a stop
// may be requested in any of them.
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
  /// The training samples in their order, as start values are taken from them
  /// (nn::Conv2d::init_samples), such as without augmentation; null: as `train` has them.
  Feed* start = nullptr;
  /// What `validation`'s pictures are for, where they have another size: the same parameters and
  /// buffers as `model`; null: that.
  const Model* evaluation_model = nullptr;
  ReplicaThreads& devices;
  /// Called once, before memory is allocated. The number of parameters before and after it is
  /// logged as a warning, because a hook may have lost some.
  TieHook tie = {};
  Backend* backend = nullptr;  ///< null: the CPU's
  /// The processes that train together. Null: this one alone, with its devices.
  Cluster* cluster = nullptr;
};

/// The same on every process, except for times.
struct FitResult {
  EndEvent end;
  std::vector<EpochEvent> epochs;  ///< of this call
  std::string last_checkpoint;     ///< empty: none was written
  std::string best_checkpoint;
};

/// Returns after the last epoch, or after a stop with what was trained until then. `observers` are
/// called in process 0 only. Throws: InvalidArgument (options, a checkpoint of another model)
/// before anything is written, on every process; otherwise the first replica's or the input's
/// Error, within a second of it; the other processes throw an Error that names the process and its
/// reason.
FitResult fit(const FitInput& input, const TrainOptions& options,
              const std::vector<Observer*>& observers = {});

}  // namespace millrace::trainer
