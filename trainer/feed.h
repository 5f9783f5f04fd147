// Feed: where a run's batches come from, an epoch at a time.
//
// LoaderFeed is a ParallelLoader over a pipeline, with the same number of batches for all replicas.
// In training, a replica whose batches end before another's takes part in the remaining steps
// without a sample.
//
//   LoaderFeed train(pipeline_options, devices);
//
// A feed of one's own says in Batch::position where it stands behind a batch, and goes on from
// there (open()): else a run that is resumed in mid-epoch begins the epoch again.
//
// Threads: a Feed one at a time; EpochFeed::next() from one thread per replica.
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
#include "trainer/events.h"

namespace millrace::trainer {

/// Samples of an epoch in this process as far as they have been read, those skipped included.
struct ReadSamples {
  std::int64_t read = 0;
  std::int64_t skipped = 0;
};

/// One epoch's batches, borrowed from its Feed.
class EpochFeed {
 public:
  virtual ~EpochFeed() = default;

  /// Waits for the replica's next batch and returns true; returns false at the epoch's end, after
  /// which it is not called again. `replica` counts this process's. Throws: the input's fault, to
  /// every replica; Cancelled after stop().
  virtual bool next(int replica, pipeline::Batch& batch) = 0;
  /// Makes current and later calls of next() throw. Threads: any.
  virtual void stop() = 0;
  /// Whether the epoch ends for all replicas of all processes where the first one has no batch left
  /// (pipeline::Uneven::kDrop); else those step without samples.
  virtual bool drops_uneven() const { return false; }
  /// The input's busiest stage so far, for the stall report: "decode"; may be empty.
  virtual std::string busiest_stage() const { return {}; }
  /// Samples of this epoch that the fault policy skipped, once it has ended.
  virtual std::int64_t skipped_samples() const { return 0; }
  /// So far; the sums over all processes must be within fault_policy()'s limits at each step.
  /// Threads: that of replica 0.
  virtual ReadSamples read_samples() const { return {}; }
  virtual wds::FaultPolicy fault_policy() const { return {}; }
  /// Samples and indexes of this epoch that arrived damaged over the network and intact when
  /// fetched again, once it has ended.
  virtual std::int64_t refetched() const { return 0; }
  /// Once the epoch has ended: what its input did since the report before, as far as it is known.
  /// Samples that were read ahead meanwhile are of the next epoch, and in this report.
  virtual InputReport report() { return {}; }
  /// What would make the input's decoding faster, for an epoch that it limits; may be empty.
  virtual std::string advice() const { return {}; }
};

class Feed {
 public:
  virtual ~Feed() = default;

  /// Opens `epoch` (from 0) at its beginning, or at a position of all processes together, after the
  /// steps that `from` counts. Requires: no other epoch is open.
  virtual std::unique_ptr<EpochFeed> open(std::uint32_t epoch, const pipeline::Position* from) = 0;
  /// Announces that no epoch from `end` on will be opened, so that none is read ahead. Replaces an
  /// earlier call.
  virtual void plan_epochs(std::int64_t /*end*/) {}
  /// Frees what the last epoch's batches take; open() goes on as ever. Requires: no epoch is open.
  virtual void release() {}
  /// What the devices bring to their memory from the next open() on.
  virtual void set_landing(const device::Landing& /*landing*/) {}
  /// What the samples are and what fixes their order, for checkpoints; nullopt if unknown. May read
  /// pieces of the shards.
  virtual std::optional<pipeline::DataIdentity> identity() const { return {}; }
  /// Slots of a replica's full batch; 0 if unknown.
  virtual std::int64_t batch_size() const { return 0; }
  /// Steps that each replica takes in an epoch; 0 if unknown before the epoch is read.
  virtual std::int64_t steps_per_epoch() const { return 0; }
};

/// A pipeline whose batches the devices take in turn. It is built at the first open() and continues
/// from epoch to epoch, reading ahead as far as plan_epochs() allows; it is built again only for an
/// epoch that does not follow the last one read to its end.
class LoaderFeed final : public Feed {
 public:
  /// `devices` is borrowed. options.epochs.first and count are ignored. Reads the shards' counts if
  /// options.indexed is set. Throws: as pipeline::with_counts(); InvalidArgument, as
  /// pipeline::check_repeats() and check_even().
  LoaderFeed(pipeline::PipelineOptions options, const device::DeviceSet& devices,
             const device::LoaderOptions& loader = {});
  ~LoaderFeed() override;

  std::unique_ptr<EpochFeed> open(std::uint32_t epoch, const pipeline::Position* from) override;
  void plan_epochs(std::int64_t end) override { end_epoch_ = end; }
  void release() override { loader_.reset(); }
  void set_landing(const device::Landing& landing) override;
  std::optional<pipeline::DataIdentity> identity() const override;
  std::int64_t batch_size() const override { return options_.batch.size; }
  std::int64_t steps_per_epoch() const override;
  /// Null before the first open(), and after release().
  const pipeline::Pipeline* pipeline() const;

 private:
  /// What the last report has counted, of the loader.
  struct Reported {
    pipeline::Statistics statistics;
    device::WaitStatistics waits;
  };
  class Epoch;

  void start(std::uint32_t epoch, const pipeline::Position* from);

  pipeline::PipelineOptions options_;
  const device::DeviceSet& devices_;
  mutable std::optional<pipeline::DataIdentity> identity_;  ///< once asked for
  device::LoaderOptions loader_options_;
  std::unique_ptr<device::ParallelLoader> loader_;
  Reported reported_ = {};
  std::int64_t end_epoch_ = 0;    ///< of the planned epochs; 0: no end
  std::uint32_t next_epoch_ = 0;  ///< the loader's next one, if `whole_`
  bool whole_ = false;            ///< the last epoch was read to its end
};

}  // namespace millrace::trainer
