// Backend: computes a run's steps, and alone accesses its flat buffers.
//
// Weights, the optimizer's state, the weights' EMA and running statistics are flat float32 buffers
// in the backend's memory, laid out by parameter tables. The training loop holds their handles: it
// sets start values and saves checkpoints. All else is done by the steps that the backend makes for
// each replica (trainer/step.h).
//
//   const std::unique_ptr<Backend> backend = make_cpu_backend();
//   const DeviceBuffer weights = backend->allocate(model.parameters().padded_size());
//   const auto replica = backend->make_replica({.model = model, .objective = objective,
//                                      .weights = weights.span, .buffers = buffers.span, ...});
//   fit({.model = model, ..., .backend = backend.get()}, options);
//
// The replicas of a process share one backend and its memory, of which there may be a copy on each
// device (pjrt/backend.h).
//
// To add one: a class derived from Backend, passed to fit(), evaluate() or predict(), whose steps
// are its own; or one derived from ComposedBackend (composed_backend.h), which composes steps of
// plans, reducers and updaters. tests/trainer/backend_conformance.h specifies both;
// tests/install/user_project/own_backend.cc is an example.
//
// Order: a backend may work asynchronously. Calls take effect in the order in which a thread makes
// them; calls that return values to the host (read(), outcome()) wait for those that they depend
// on.
// Threads: from many at once, for spans that do not overlap.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "device/device.h"
#include "trainer/device_span.h"
#include "trainer/step.h"

namespace millrace::trainer {

class Backend {
 public:
  virtual ~Backend() = default;

  /// "cpu".
  virtual const std::string& name() const = 0;

  /// `floats` zeros. Throws: std::bad_alloc.
  virtual DeviceBuffer allocate(std::size_t floats) = 0;
  /// Copies from and to the host's memory. Requires, here and below: equal sizes.
  virtual void write(std::span<const float> from, DeviceSpan to) = 0;
  virtual void read(DeviceSpan from, std::span<float> to) = 0;
  virtual void copy(DeviceSpan from, DeviceSpan to) = 0;
  virtual void swap(DeviceSpan a, DeviceSpan b) = 0;

  /// Which fields of a batch the steps want in the device's memory. Default: all.
  virtual device::Landing landing(const Objective& /*objective*/) const { return {}; }
  /// Lifetime: what `setup` names must outlive the replica. Throws: Unsupported for a model that
  /// this backend cannot compile, at once or when a batch is first used.
  virtual std::unique_ptr<BackendReplica> make_replica(const ReplicaSetup& setup) = 0;
};

}  // namespace millrace::trainer
