// Tuner: how many readers, decoding threads and blocks read ahead a pipeline should have, from what
// its stages did. A pure function of the meters it was shown: it neither measures nor acts.
//
// While the consumer waits for batches, it looks for the stage that keeps it waiting and tries more
// of what that stage lacks:
// - nothing, where the program has all of the processor's time;
// - decoding threads, where they are busy but not with the processor (user functions that wait);
// - readers, where streams wait for one;
// - blocks read ahead, where neither is the case: something stalls now and then.
// What does not bring a twentieth more is undone, and tried again only after a pause that doubles
// each time; so is the time over which is measured, because stalls may be rare. So the settings
// come to rest: each knob is raised a few times at most, and a try that fails is ever rarer.
//
//   Tuner tuner({.readers = 4, .decode_threads = 2, .read_ahead = 2}, most);
//   if (tuner.observe(meters_of_the_last_half_second)) apply(tuner.settings());
//
// Threads: one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>

namespace millrace::pipeline::detail {

/// What may change while a pipeline runs. None of it changes the order.
struct TuneSettings {
  int readers = 1;         ///< streams read at once
  int decode_threads = 1;  ///< threads that decode
  int read_ahead = 1;      ///< blocks read ahead of each stream

  bool operator==(const TuneSettings&) const = default;
};

/// What happened in some time.
struct TuneMeters {
  double seconds = 0;
  double samples = 0;            ///< handed to the consumer
  double wait_seconds = 0;       ///< that the consumer waited
  double read_seconds = 0;       ///< summed over the readers
  double queue_seconds = 0;      ///< that streams waited for a reader, summed over them
  double decode_seconds = 0;     ///< summed over the decoding threads
  double processor_seconds = 0;  ///< of these
  double program_seconds = 0;    ///< of the processor, used by the whole program, a core

  TuneMeters& operator+=(const TuneMeters& more);
  TuneMeters operator-(const TuneMeters& earlier) const;
};

class Tuner {
 public:
  /// Starts with `first` and never goes beyond `most`: what is equal in both is left alone.
  Tuner(const TuneSettings& first, const TuneSettings& most);

  /// Looks at the time since the last call. Returns whether settings() changed. Requires:
  /// meters.seconds > 0.
  bool observe(const TuneMeters& meters);
  const TuneSettings& settings() const { return settings_; }
  /// Whether settings() are a try that is not judged yet.
  bool is_trying() const { return try_.has_value(); }
  /// The settings and why they are so, in a line: "32 blocks read ahead of each stream (2 at
  /// first), 4 readers, 2 decoding threads: the consumer hardly waits".
  std::string text() const;

 private:
  enum class Limit { kUnknown, kNothing, kProcessor, kDecoder, kReaders, kSource, kStalls };
  /// One of the settings, and when it may be raised again.
  struct Knob {
    int TuneSettings::*setting;
    int factor;      ///< of a try
    long next = 0;   ///< the first window with another try
    long pause = 4;  ///< windows, after the next try that fails
  };
  struct Try {
    Knob* knob;
    int before;
    double rate;
    bool is_settled = false;  ///< a window has passed since
  };

  Limit limit_of(const TuneMeters& window) const;
  Knob* knob_of(Limit limit);
  bool raise(Knob& knob, double rate);
  bool judge(const TuneMeters& window);

  const TuneSettings first_;
  const TuneSettings most_;
  TuneSettings settings_;
  std::array<Knob, 3> knobs_;
  std::optional<Try> try_;
  Limit limit_ = Limit::kUnknown;
  TuneMeters sum_;     ///< of the current window
  int intervals_ = 0;  ///< in it
  int length_ = 1;     ///< intervals of a window
  long window_ = 0;
};

}  // namespace millrace::pipeline::detail
