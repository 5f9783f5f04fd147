#include "pipeline/detail/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace millrace::pipeline::detail {
namespace {

/// Below this share of waiting there is nothing to gain.
constexpr double kNoticeableWait = 0.05;
/// From this share of their time on, threads count as busy.
constexpr double kBusy = 0.9;
/// Of what is busy, with less of the processor's time than this share it waits for something.
constexpr double kComputing = 0.5;
/// So many streams, on average, wait for a reader.
constexpr double kQueue = 0.5;
/// What a try must bring.
constexpr double kGain = 1.05;
/// Stalls are rare: a window of so many intervals has several.
constexpr int kStallWindow = 6;
constexpr int kLongestWindow = 16;
constexpr long kFirstPause = 4;
constexpr long kLongestPause = 1L << 20U;

double share(double seconds, int threads, const TuneMeters& window) {
  return seconds / (threads * window.seconds);
}

double wait_share(const TuneMeters& window) { return window.wait_seconds / window.seconds; }
double rate(const TuneMeters& window) { return window.samples / window.seconds; }

/// "16 readers (4 at first)".
std::string setting_text(int now, int first, const char* what, const char* where = "") {
  const std::string text = fmt::format("{} {}{}{}", now, what, now == 1 ? "" : "s", where);
  return now == first ? text : text + fmt::format(" ({} at first)", first);
}

}  // namespace

TuneMeters& TuneMeters::operator+=(const TuneMeters& more) {
  seconds += more.seconds;
  samples += more.samples;
  wait_seconds += more.wait_seconds;
  read_seconds += more.read_seconds;
  queue_seconds += more.queue_seconds;
  decode_seconds += more.decode_seconds;
  processor_seconds += more.processor_seconds;
  program_seconds += more.program_seconds;
  return *this;
}

TuneMeters TuneMeters::operator-(const TuneMeters& earlier) const {
  return {.seconds = seconds - earlier.seconds,
          .samples = samples - earlier.samples,
          .wait_seconds = wait_seconds - earlier.wait_seconds,
          .read_seconds = read_seconds - earlier.read_seconds,
          .queue_seconds = queue_seconds - earlier.queue_seconds,
          .decode_seconds = decode_seconds - earlier.decode_seconds,
          .processor_seconds = processor_seconds - earlier.processor_seconds,
          .program_seconds = program_seconds - earlier.program_seconds};
}

Tuner::Tuner(const TuneSettings& first, const TuneSettings& most)
    : first_(first),
      most_(most),
      settings_(first),
      knobs_{Knob{&TuneSettings::decode_threads, 2}, Knob{&TuneSettings::readers, 2},
             Knob{&TuneSettings::read_ahead, 8}} {}

bool Tuner::observe(const TuneMeters& meters) {
  sum_ += meters;
  if (++intervals_ < length_) return false;
  const TuneMeters window = std::exchange(sum_, {});
  intervals_ = 0;
  ++window_;
  if (try_ && !std::exchange(try_->is_settled, true)) return false;
  if (try_) return judge(window);
  limit_ = limit_of(window);
  if (limit_ == Limit::kStalls && length_ < kStallWindow) {
    length_ = kStallWindow;
    return false;
  }
  Knob* const knob = knob_of(limit_);
  return knob != nullptr && window_ >= knob->next && raise(*knob, rate(window));
}

Tuner::Limit Tuner::limit_of(const TuneMeters& window) const {
  if (wait_share(window) < kNoticeableWait) return Limit::kNothing;
  if (window.program_seconds >= kBusy * window.seconds) return Limit::kProcessor;
  if (share(window.decode_seconds, settings_.decode_threads, window) >= kBusy)
    return window.processor_seconds < kComputing * window.decode_seconds ? Limit::kDecoder
                                                                         : Limit::kProcessor;
  if (window.queue_seconds >= kQueue * window.seconds && settings_.readers < most_.readers)
    return Limit::kReaders;
  const bool reads = share(window.read_seconds, settings_.readers, window) >= kBusy;
  return reads ? Limit::kSource : Limit::kStalls;
}

/// What may help; null: nothing that can be tuned.
Tuner::Knob* Tuner::knob_of(Limit limit) {
  if (limit == Limit::kDecoder) return &knobs_[0];
  if (limit == Limit::kReaders) return &knobs_[1];
  return limit == Limit::kStalls ? &knobs_[2] : nullptr;
}

bool Tuner::raise(Knob& knob, double rate) {
  int& setting = settings_.*knob.setting;
  const int before = setting;
  setting = std::min(before * knob.factor, most_.*knob.setting);
  if (setting <= before) {
    setting = before;
    return false;
  }
  try_ = Try{.knob = &knob, .before = before, .rate = rate};
  return true;
}

bool Tuner::judge(const TuneMeters& window) {
  const Try made = *std::exchange(try_, std::nullopt);
  if (wait_share(window) < kNoticeableWait || rate(window) >= kGain * made.rate) {
    limit_ = limit_of(window);
    made.knob->pause = kFirstPause;
    return false;
  }
  settings_.*made.knob->setting = made.before;
  made.knob->next = window_ + made.knob->pause;
  made.knob->pause = std::min(2 * made.knob->pause, kLongestPause);
  length_ = std::min(2 * length_, kLongestWindow);
  return true;
}

std::string Tuner::text() const {
  std::string text =
      setting_text(settings_.read_ahead, first_.read_ahead, "block", " read ahead of each stream");
  text += ", " + setting_text(settings_.readers, first_.readers, "reader") + ", ";
  text += setting_text(settings_.decode_threads, first_.decode_threads, "decoding thread") + ": ";
  switch (limit_) {
    case Limit::kUnknown:
      return text + "nothing was measured yet";
    case Limit::kNothing:
      return text + "the consumer hardly waits";
    case Limit::kProcessor:
      return text + "the processor limits";
    case Limit::kDecoder:
      return text + "decoding waits for something other than the processor";
    case Limit::kReaders:
      return text + "streams wait for a reader";
    case Limit::kSource:
      return text + "all readers are busy, as many as there may be: the source limits";
    case Limit::kStalls:
      return text + "the consumer waits while readers and decoding threads have time";
  }
  return text;
}

}  // namespace millrace::pipeline::detail
