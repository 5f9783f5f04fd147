// Backend: what computes, and all that may look into a run's flat buffers.
//
// Weights, gradients, the optimizer's state, the weights' EMA and running statistics are flat
// float32 buffers in the backend's memory, laid out by parameter tables. The training loop holds
// spans of them, and asks the backend for whatever is done to them: a model is compiled against
// them, gradients are summed into them, an Updater changes them, checkpoints read and write them.
//
//   const std::unique_ptr<Backend> backend = make_cpu_backend();
//   const DeviceBuffer weights = backend->allocate(model.parameters().padded_size());
//   const auto plan = backend->compile(model, {.batch_size = 128}, {.parameters = weights.span,
//                                      .gradients = gradients.span, .buffers = buffers.span});
//   fit({.model = model, ..., .backend = backend.get()}, options);
//
// The replicas of a process share one backend and its memory; devices with memories of their own
// are a process each (cluster.h).
//
// To add one: a class derived from Backend, handed to fit(), evaluate() or predict().
// tests/trainer/backend_conformance.h says what it must do; tests/install/stranger/own_backend.cc
// is a wrapper around the CPU's.
//
// Order: a backend may work behind its caller's back. Calls take effect in the order in which a
// thread makes them; what gives values to the host (read(), score(), a plan's outputs,
// Updater::was_finite()) waits for those that it depends on.
// Threads: from many at once, for spans that do not overlap; compile(), score(), a GradientReducer
// and an Updater on their replica's own thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trainer/collectives.h"
#include "trainer/device_span.h"
#include "trainer/gradient_reducer.h"
#include "trainer/model.h"
#include "trainer/nn/plan.h"
#include "trainer/objective.h"
#include "trainer/optimizer.h"

namespace millrace::trainer {

/// What a plan reads and writes, laid out by the model's tables. Lifetime: they outlive the plan.
struct PlanBuffers {
  DeviceSpan parameters = {};
  DeviceSpan gradients = {};  ///< empty for a plan that never calls backward()
  DeviceSpan buffers = {};    ///< running statistics
};

/// What an Updater works on: the run's buffers, of which it changes its replica's ranges, and the
/// replica's own.
struct UpdaterSetup {
  const OptimizerOptions& optimizer;
  const ParameterTable& parameters;
  ClipOptions clip = {};
  double ema_decay = 0.0;
  DeviceSpan weights = {};
  std::vector<DeviceSpan> states = {};  ///< one a UpdateRule::state_names()
  DeviceSpan ema = {};                  ///< empty: none is kept
  DeviceSpan gradients = {};
  DeviceSpan buffers = {};
  DeviceSpan kept_buffers = {};  ///< the buffers as they were before the step
  std::vector<Range> owned = {};
  Collectives& group;
};

struct StepUpdate {
  float lr = 0.0F;
  std::int64_t step = 1;        ///< from 1, over the whole run
  double gradient_scale = 1.0;  ///< gradients count times this, and are clipped as scaled
  bool is_finite = true;        ///< false: the loss was not, on any rank
};

/// One replica's share of each step's update. Norms and whether all is finite stay where they are
/// computed: a step that is not finite leaves the weights alone without the host's help, which is
/// told later.
class Updater {
 public:
  virtual ~Updater() = default;

  /// Looks at the gradients in the owned ranges, those of all ranks together: bounds each, times
  /// `scale`, by clip.value, takes their norm where clip.norm asks for it, and finds what is not
  /// finite. `sums`, numbers of the host, are summed over the ranks on the way. A collective.
  virtual void measure(double scale, std::span<double> sums) = 0;
  /// Changes weights, state and EMA in the owned ranges by the measured gradients, the norm
  /// clipped. Where the step is not finite, on any rank, it changes none of them, and copies
  /// kept_buffers to buffers. A collective.
  virtual void update(const StepUpdate& step) = 0;
  /// Whether the last update() changed the weights; equal on all ranks. The training loop asks a
  /// step later, so that nobody waits for the device.
  virtual bool was_finite() = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  /// "cpu".
  virtual const std::string& name() const = 0;

  /// So many floats, all zero, the first at a multiple of 64 bytes.
  virtual DeviceBuffer allocate(std::size_t floats) = 0;
  /// Between the host's memory and the backend's. Requires of these and what follows: equal sizes.
  virtual void write(std::span<const float> from, DeviceSpan to) = 0;
  virtual void read(DeviceSpan from, std::span<float> to) = 0;
  virtual void copy(DeviceSpan from, DeviceSpan to) = 0;
  virtual void swap(DeviceSpan a, DeviceSpan b) = 0;
  virtual void set_zero(DeviceSpan values) = 0;
  /// into += values.
  virtual void add(DeviceSpan into, DeviceSpan values) = 0;

  /// Leaves in every rank's `values` the ranks' sum divided by `count`. A collective.
  virtual void average(DeviceSpan values, double count, Collectives& group) = 0;
  /// Collectives::all_gather(). A collective.
  virtual void all_gather(DeviceSpan values, Collectives& group) = 0;
  /// `group` is borrowed, and the reducer's alone.
  virtual std::unique_ptr<GradientReducer> make_reducer(DeviceSpan gradients, Collectives& group,
                                                        const GradientReducerOptions& options) = 0;

  /// Throws: InvalidArgument for buffers of the wrong size and options that no plan takes;
  /// Unsupported for a model that this backend cannot compile, such as one without a graph.
  virtual std::unique_ptr<nn::Plan> compile(const Model& model, const nn::PlanOptions& options,
                                            const PlanBuffers& buffers) = 0;
  /// Loss and measures of the batch that `request.plan`, one of this backend's, took forward last.
  /// Default: objective.score(), on the host's views of the plan's outputs. Throws: as that.
  virtual void score(const Objective& objective, const ScoreRequest& request,
                     std::span<double> sums);
  /// `setup.group` is borrowed. Throws: InvalidArgument for options that contradict each other;
  /// Unsupported for a rule that this backend does not know.
  virtual std::unique_ptr<Updater> make_updater(const UpdaterSetup& setup) = 0;
};

/// oneDNN for models, Eigen for flat buffers, in the host's memory; a plan and an Updater work with
/// their thread's OpenMP team. An update has the same bits for any number of threads and ranks.
std::unique_ptr<Backend> make_cpu_backend();

}  // namespace millrace::trainer
