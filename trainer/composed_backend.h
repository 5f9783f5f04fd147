// ComposedBackend: a backend whose steps are composed of a plan, an objective, a reducer and an
// updater, as the CPU's are. A step's forward and backward run when a batch is added; gradients are
// summed in buckets beside backward; the updates of other processes arrive beside the next forward.
//
//   const std::unique_ptr<ComposedBackend> backend = make_cpu_backend();
//   const auto plan = backend->compile(model, {.batch_size = 128}, {.parameters = weights.span,
//                                      .gradients = gradients.span, .buffers = buffers.span});
//
// To add one: a class derived from ComposedBackend, with memory and kernels of its own.
//
// Order: as backend.h's; calls that return values to the host are also score(), a plan's outputs,
// Updater::measure() and was_finite().
// Threads: from many at once, for spans that do not overlap; compile(), score(), a GradientReducer
// and an Updater on their replica's own thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "trainer/backend.h"
#include "trainer/collectives.h"
#include "trainer/gradient_reducer.h"
#include "trainer/model.h"
#include "trainer/nn/plan.h"
#include "trainer/objective.h"
#include "trainer/optimizer.h"

namespace millrace::trainer {

/// What a plan reads and writes, laid out by the model's tables. Lifetime: must outlive the plan.
struct PlanBuffers {
  DeviceSpan parameters = {};
  DeviceSpan gradients = {};  ///< empty for a plan that never calls backward()
  DeviceSpan buffers = {};    ///< running statistics
};

/// What an Updater works on, borrowed: the run's weights, state and EMA, of which it changes its
/// replica's ranges, and the replica's own gradients and buffers.
struct UpdaterSetup {
  const OptimizerOptions& optimizer;
  const ParameterTable& parameters;
  ClipOptions clip = {};
  double ema_decay = 0.0;
  DeviceSpan weights = {};
  std::vector<DeviceSpan> states = {};  ///< in the order of UpdateRule::state_names()
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
  double gradient_scale = 1.0;  ///< factor of the gradients, as measure() was given it
  bool is_finite = true;        ///< false: the loss is not finite; equal on all ranks
  float base_lr = 0.0F;         ///< as StepNumbers'
  std::int64_t skipped = 0;     ///< likewise
};

/// One replica's share of each step's update. Norms and the check for finite values stay on the
/// device: a step that is not finite leaves the weights unchanged without the host, which asks
/// for the outcome later.
class Updater {
 public:
  virtual ~Updater() = default;

  /// Clips each gradient in the owned ranges, times `scale`, to clip.value; computes the norm over
  /// all ranks if clip.norm is set; and checks whether all gradients of all ranks are finite. Also
  /// sums `sums`, values of the host, over the ranks. A collective.
  virtual void measure(double scale, std::span<double> sums) = 0;
  /// Updates weights, state and EMA in the owned ranges by the measured gradients, clipped by their
  /// norm. If gradients or loss are not finite, on any rank, changes none of them and copies
  /// kept_buffers to buffers. A collective.
  virtual void update(const StepUpdate& step) = 0;
  /// Whether the last update() changed the weights; equal on all ranks.
  virtual bool was_finite() = 0;
};

class ComposedBackend : public Backend {
 public:
  std::unique_ptr<BackendReplica> make_replica(const ReplicaSetup& setup) override;

  virtual void set_zero(DeviceSpan values) = 0;
  /// into += values. Requires: equal sizes.
  virtual void add(DeviceSpan into, DeviceSpan values) = 0;

  /// Replaces every rank's `values` by their sum over the ranks divided by `count`. A collective.
  virtual void average(DeviceSpan values, double count, Collectives& group) = 0;
  /// As Collectives::all_gather(). A collective.
  virtual void all_gather(DeviceSpan values, Collectives& group) = 0;
  /// As Collectives::all_gather_rounded(), of weights: `rounded` are those that plans in bf16 read
  /// rounded. Default: all_gather(), for a backend whose plans do not round them. A collective.
  virtual void all_gather_rounded(DeviceSpan values, std::span<const ValueRange> rounded,
                                  Collectives& group);
  /// Lifetime: `gradients` and `group` are borrowed; nothing else may use the group.
  virtual std::unique_ptr<GradientReducer> make_reducer(DeviceSpan gradients, Collectives& group,
                                                        const GradientReducerOptions& options) = 0;

  /// Throws: InvalidArgument for buffers of the wrong size and for invalid options; Unsupported for
  /// a model that this backend cannot compile, such as one without a graph.
  virtual std::unique_ptr<nn::Plan> compile(const Model& model, const nn::PlanOptions& options,
                                            const PlanBuffers& buffers) = 0;
  /// Adds loss and measures of the last batch that `request.plan`, one of this backend's, has
  /// computed to `sums`. Default: objective.score(), on the host's views of the plan's outputs.
  /// Throws: as Objective::score().
  virtual void score(const Objective& objective, const ScoreRequest& request,
                     std::span<double> sums);
  /// Throws: InvalidArgument for options that contradict each other; Unsupported for a rule that
  /// this backend does not have.
  virtual std::unique_ptr<Updater> make_updater(const UpdaterSetup& setup) = 0;
};

/// oneDNN for models, Eigen for flat buffers, in the host's memory: a buffer's handle is its
/// address, a multiple of 64. A plan and an Updater work with their thread's OpenMP team. An update
/// has the same bits for any number of threads. Norms (for clipping, for LARS) are summed by ranks:
/// with another number of ranks their last bits differ.
std::unique_ptr<ComposedBackend> make_cpu_backend();

}  // namespace millrace::trainer
