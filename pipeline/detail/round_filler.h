// RoundFiller: makes batches whole (BatchOptions::fill). A hole, which is a slot whose sample a
// fault cost, gets the process's next sample, from the rounds behind its own. A round that gave all
// of its samples away is used up, and never handed out.
//
// A process fills its own holes, so the others' order and steps stay as they are. Every fault is
// reported where its slot is passed, in the slots' order.
//
// Order: of the rounds, and of the samples that are moved. Buffers: one round, which waits for the
// next. Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "io/base/error.h"
#include "pipeline/detail/messages.h"
#include "pipeline/options.h"
#include "pipeline/position.h"

namespace millrace::pipeline::detail {

class RoundFiller {
 public:
  struct Callbacks {
    /// Applies the policy to a fault of the epoch, which it may end there. May throw it.
    std::function<bool(std::uint32_t epoch, const Error& fault)> ends_epoch;
    /// Takes a round that is whole, or the epoch's last one with samples.
    std::function<void(Output)> hand_out;
    /// A round was used up, or is left out with so many samples.
    std::function<void(std::int64_t samples)> leave_out;
  };

  /// `options` are borrowed. Begins at `start`.
  RoundFiller(const PipelineOptions& options, const Position& start, Callbacks callbacks);

  /// The next round, complete and not finished. Throws: as ends_epoch().
  void add(Output next);
  /// The epoch has no more samples: hands out the round that waits, its masked slots at its end.
  void end_samples();
  /// Batches of the epoch that were used up: those handed out have lower numbers by so many.
  std::int64_t used_up() const { return used_up_; }
  /// Behind the epoch's last round; null: there was none.
  std::shared_ptr<const Position> behind() const { return behind_; }
  /// used_up() at the epoch's end: the next one begins.
  std::int64_t take_used_up();

 private:
  bool fill_from(OpenRound& next);
  void begin(Output next);
  void use_up(const Output& round);
  void find_hole();
  void hand_out(std::int64_t passed);
  Position::Fill fill_at(std::int64_t passed, std::int64_t batches) const;

  const PipelineOptions& options_;
  const Callbacks callbacks_;
  std::optional<Output> head_;  ///< the round that waits
  std::int64_t hole_ = 0;       ///< its first slot without a sample
  Position::Fill before_;       ///< where it begins
  std::int64_t passed_ = 0;     ///< slots of the next round that are used
  std::int64_t used_up_ = 0;    ///< batches
  /// Behind the last round that has been taken in whole.
  std::shared_ptr<const Position> behind_;
};

}  // namespace millrace::pipeline::detail
