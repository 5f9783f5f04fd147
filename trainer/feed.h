// Feed: where a run's batches come from, an epoch at a time.
//
// LoaderFeed is a ParallelLoader over a pipeline, which gives all replicas the same number of
// batches; tests bring fakes. In training a replica whose feed ends before another's takes part in
// the steps that are left with no sample.
//
//   LoaderFeed train(pipeline_options, devices);
//
// Threads: a Feed one at a time; EpochFeed::next() from one thread a replica.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "device/parallel_loader.h"
#include "pipeline/batch.h"
#include "pipeline/data_identity.h"
#include "pipeline/options.h"
#include "pipeline/position.h"

namespace millrace::trainer {

/// One epoch's batches, borrowed from its Feed.
class EpochFeed {
 public:
  virtual ~EpochFeed() = default;

  /// The replica's next batch and true, or false at the epoch's end, after which it is not called
  /// again. Waits.
  /// Throws: what went wrong, to every replica; Cancelled after stop().
  virtual bool next(int replica, pipeline::Batch& batch) = 0;
  /// Makes every next(), running or to come, throw. From any thread.
  virtual void stop() = 0;
  /// Whether the epoch ends for all replicas of all processes where the first one has no batch left
  /// (pipeline::Uneven::kDrop); else those step without samples.
  virtual bool drops_uneven() const { return false; }
  /// The input's busiest stage so far, for the stall report: "decode"; may be empty.
  virtual std::string busiest_stage() const { return {}; }
  /// Samples of this epoch that the fault policy skipped. When its end has come.
  virtual std::int64_t skipped_samples() const { return 0; }
  /// What of this epoch came damaged over the network and whole when it was fetched once more. When
  /// its end has come.
  virtual std::int64_t refetched() const { return 0; }
};

class Feed {
 public:
  virtual ~Feed() = default;

  /// Opens `epoch` (from 0) at its beginning, or where all processes of the run stand together,
  /// after the steps that `from` counts. One epoch is open at a time.
  virtual std::unique_ptr<EpochFeed> open(std::uint32_t epoch, const pipeline::Position* from) = 0;
  /// Says that no epoch from `end` on will be opened: there is nothing to read ahead behind it. A
  /// later call takes the place of an earlier one.
  virtual void plan_epochs(std::int64_t /*end*/) {}
  /// What the samples are and what fixes their order, for a checkpoint to know; nothing where
  /// nobody knows. May read pieces of local shards.
  virtual std::optional<pipeline::DataIdentity> identity() const { return {}; }
  /// Slots of a replica's full batch; 0 where nobody knows.
  virtual std::int64_t batch_size() const { return 0; }
  /// Steps that each replica takes in an epoch, where that is known before; 0 where not.
  virtual std::int64_t steps_per_epoch() const { return 0; }
};

/// A pipeline whose batches go round the devices. It is built at the first open() and goes on from
/// epoch to epoch, reading ahead as far as plan_epochs() allows; only a jump builds it again.
class LoaderFeed final : public Feed {
 public:
  /// `devices` is borrowed. Of options.epochs, `first` and `count` are the feed's own business.
  /// Looks up the shards' counts of samples, where options.indexed asks for it. Throws:
  /// InvalidArgument, as pipeline::check_even().
  LoaderFeed(pipeline::PipelineOptions options, const device::DeviceSet& devices,
             const device::LoaderOptions& loader = {});
  ~LoaderFeed() override;

  std::unique_ptr<EpochFeed> open(std::uint32_t epoch, const pipeline::Position* from) override;
  void plan_epochs(std::int64_t end) override { end_epoch_ = end; }
  std::optional<pipeline::DataIdentity> identity() const override;
  std::int64_t batch_size() const override { return options_.batch.size; }
  std::int64_t steps_per_epoch() const override;
  /// Null before the first open().
  const pipeline::Pipeline* pipeline() const;

 private:
  void start(std::uint32_t epoch, const pipeline::Position* from);

  pipeline::PipelineOptions options_;
  const device::DeviceSet& devices_;
  device::LoaderOptions loader_options_;
  std::unique_ptr<device::ParallelLoader> loader_;
  std::int64_t end_epoch_ = 0;    ///< of those that are planned; 0: without end
  std::uint32_t next_epoch_ = 0;  ///< the one that the loader will give, if `whole_`
  bool whole_ = false;            ///< the epoch before was read to its end
};

}  // namespace millrace::trainer
