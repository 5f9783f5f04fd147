#include "decode/audio.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "decode/detail/codecs.h"
#include "decode/detail/sound_library.h"
#include "io/base/error.h"
#include "io/base/loaded_module.h"

namespace millrace::decode {
namespace {

constexpr int kMostRate = 768'000;
constexpr std::int64_t kMostSamples = std::int64_t{1} << 26;
// So that a sound's length can be multiplied by a rate.
constexpr std::int64_t kMostFrames = std::int64_t{1} << 42;
// What libsamplerate's filter reaches to either side, in samples of the lower rate, rounded up.
constexpr std::int64_t kFilterSamples = 64;

const SoundLibrary* sound_library() {
#ifdef MILLRACE_HAS_SOUND
  static const SoundLibrary* const library = reinterpret_cast<SoundModuleEntry*>(
      module_entry({.file = "libmillrace_sound.so",
                    .entry = kSoundModuleEntry,
                    .libraries = "libsndfile and libsamplerate",
                    .remedy = "install libsndfile1 and libsamplerate0"}))();
  return library;
#else
  throw Error(ErrorCode::kUnsupported,
              "this build has no libsndfile and libsamplerate, which read sounds: install them "
              "(Debian and Ubuntu: libsndfile1-dev, libsamplerate0-dev) and build again");
#endif
}

std::int64_t samples_of(const AudioOptions& options) {
  const double samples = std::round(options.seconds * options.rate);
  require(samples >= 1 && samples <= static_cast<double>(kMostSamples),
          fmt::format("a sound of {:g} s at {} Hz: it must have from 1 to {} samples",
                      options.seconds, options.rate, kMostSamples));
  return static_cast<std::int64_t>(samples);
}

const AudioOptions& checked_audio(const AudioOptions& options) {
  require(options.rate >= 1 && options.rate <= kMostRate,
          fmt::format("a sound's rate of {} Hz: must be from 1 to {}", options.rate, kMostRate));
  require(options.channels == 1 || options.channels == 2,
          fmt::format("a sound of {} channels: must be 1 or 2", options.channels));
  static_cast<void>(samples_of(options));
  return options;
}

std::uint32_t little_endian(std::span<const std::byte> file, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i > 0; --i)
    value = value << 8U | std::to_integer<unsigned>(file[at + i - 1]);
  return value;
}

/// libsndfile takes a cut WAV file for a shorter one. Throws: Truncated.
void check_whole(std::span<const std::byte> wav) {
  constexpr std::uint32_t kUnknown = 0x7FFFF000;  // and above: what programs write to a pipe
  for (std::size_t at = 12; at + 8 <= wav.size();) {
    const std::uint64_t size = little_endian(wav, at + 4);
    const std::uint64_t left = wav.size() - at - 8;
    const bool is_data = detail::begins_with(wav.subspan(at), "data");
    if (size > left && (!is_data || size < kUnknown))
      throw Error(ErrorCode::kTruncated,
                  fmt::format("a WAV file ends {} bytes before its samples do", size - left),
                  {.offset = wav.size()});
    if (is_data && size == 0 && left > 0 && little_endian(wav, 4) + 8 < wav.size())
      throw Error(
          ErrorCode::kTruncated,
          fmt::format("a WAV file whose header was never completed: {} bytes are behind it", left),
          {.offset = at});
    if (is_data) return;
    at += 8 + static_cast<std::size_t>(std::min(size + size % 2, left));
  }
}

/// Throws: Unsupported for what is neither WAV nor FLAC; Truncated.
void check_sound(std::span<const std::byte> file) {
  if (detail::begins_with(file, "fLaC")) return;
  const bool riff = detail::begins_with(file, "RIFF") || detail::begins_with(file, "RF64");
  if (file.size() < 12 || !riff || !detail::begins_with(file.subspan(8), "WAVE"))
    throw Error(ErrorCode::kUnsupported, "neither a WAV nor a FLAC file");
  check_whole(file);
}

void check_format(const SoundFormat& format, const AudioOptions& options) {
  const AudioLimits& limits = options.limits;
  const auto check = [](bool within, std::string_view what, std::int64_t value, std::int64_t most) {
    if (!within) throw Error(ErrorCode::kExhausted, fmt::format(fmt::runtime(what), value, most));
  };
  check(format.channels <= limits.max_channels, "{} channels are more than {}", format.channels,
        limits.max_channels);
  check(format.rate <= limits.max_rate, "{} samples a second are more than {}", format.rate,
        limits.max_rate);
  check(format.frames <= kMostFrames, "{} samples are more than {}", format.frames, kMostFrames);
  if (format.channels < 1 || format.rate < 1 || format.frames < 0)
    throw Error(ErrorCode::kCorrupt, "a sound without channels, rate or length");
  if (options.channels == 2 && format.channels > 2)
    throw Error(ErrorCode::kUnsupported,
                fmt::format("a sound of {} channels, of which none are the two that are wanted: "
                            "channels 1 is their mean",
                            format.channels));
}

/// The part of a sound: what is read, and where the result begins in what becomes of that.
struct SoundPart {
  std::int64_t first = 0;   ///< frame of the file
  std::int64_t frames = 0;  ///< of the file
  std::int64_t silent = 0;  ///< frames behind the file's last, for the resampler to end on
  std::int64_t before = 0;  ///< samples of the result's rate before the part begins
  std::int64_t length = 0;  ///< of the part, samples of the result's rate
};

std::int64_t rounded_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

SoundPart part_of(const SoundFormat& format, const AudioOptions& options, const SampleId& id) {
  const std::int64_t common = std::gcd(format.rate, options.rate);
  const std::int64_t in = format.rate / common;    // so many frames of the file
  const std::int64_t out = options.rate / common;  // are so many samples of the result
  const std::int64_t total = format.frames / in * out + format.frames % in * out / in;
  const std::int64_t spare = std::max<std::int64_t>(total - samples_of(options), 0);
  const std::int64_t place = choose_place(options.place, spare / out + 1, id);
  SoundPart part{.length = std::min(total - place * out, samples_of(options))};
  const std::int64_t reach =
      in == out ? 0 : kFilterSamples * std::max<std::int64_t>(rounded_up(in, out), 1);
  const std::int64_t periods = std::min(rounded_up(reach, in), place);
  part.first = (place - periods) * in;
  part.before = periods * out;
  const std::int64_t end = place * in + rounded_up(part.length * in, out) + reach;
  part.frames = std::min(end, format.frames) - part.first;
  part.silent = end - part.first - part.frames;
  return part;
}

/// (frames, from channels) to (frames, 1 or 2).
std::vector<float> mixed(std::vector<float> sound, int from, int to) {
  if (from == to) return sound;
  const std::size_t frames = sound.size() / static_cast<std::size_t>(from);
  std::vector<float> result(frames * static_cast<std::size_t>(to));
  for (std::size_t i = 0; i < frames; ++i) {
    const float* frame = sound.data() + i * static_cast<std::size_t>(from);
    const float mean = std::accumulate(frame, frame + from, 0.0F) / static_cast<float>(from);
    std::fill_n(result.begin() + static_cast<std::ptrdiff_t>(i * static_cast<std::size_t>(to)), to,
                mean);
  }
  return result;
}

void check_finite(std::span<const float> sound) {
  if (std::ranges::all_of(sound, [](float value) { return std::isfinite(value); })) return;
  throw Error(ErrorCode::kCorrupt, "a sound with a sample that is no number");
}

/// (frames, channels). Throws: Exhausted; as SoundFile::read().
std::vector<float> read_part(SoundFile& file, const SoundPart& part, const AudioLimits& limits) {
  const int channels = file.format().channels;
  const std::int64_t values = (part.frames + part.silent) * channels;
  if (values > limits.max_bytes / static_cast<std::int64_t>(sizeof(float)))
    throw Error(ErrorCode::kExhausted,
                fmt::format("{} samples of {} channels are more than {} bytes", part.frames,
                            channels, limits.max_bytes));
  std::vector<float> sound(static_cast<std::size_t>(values));
  const auto stored = static_cast<std::size_t>(part.frames * channels);
  if (stored > 0) file.read(part.first, std::span(sound).first(stored));
  check_finite(sound);
  return sound;
}

std::vector<float> resampled(const SoundLibrary& library, std::span<const float> sound,
                             const SoundPart& part, const SoundFormat& format,
                             const AudioOptions& options) {
  const std::int64_t samples = part.before + part.length;
  std::vector<float> result(static_cast<std::size_t>(samples * options.channels));
  const double ratio = static_cast<double>(options.rate) / format.rate;
  if (!result.empty()) library.resample(sound, options.channels, ratio, result);
  return result;
}

/// (frames, channels), from the part's first on, to (channels, samples), with zeros behind it.
void write_sound(std::span<const float> sound, const SoundPart& part, std::size_t channels,
                 std::span<std::byte> slot) {
  std::vector<float> planes(slot.size() / sizeof(float));
  const std::size_t samples = planes.size() / channels;
  const float* from = sound.data() + static_cast<std::size_t>(part.before) * channels;
  for (std::size_t i = 0; i < static_cast<std::size_t>(part.length); ++i)
    for (std::size_t c = 0; c < channels; ++c) planes[c * samples + i] = *from++;
  std::memcpy(slot.data(), planes.data(), slot.size());
}

}  // namespace

AudioDecoder::AudioDecoder(const AudioOptions& options)
    : options_(checked_audio(options)), library_(sound_library()) {}

ArraySpec AudioDecoder::output() const {
  return {DType::kFloat32, {options_.channels, samples_of(options_)}};
}

std::int64_t AudioDecoder::decode(const io::Bytes& encoded, const SampleId& id,
                                  std::span<std::byte> slot) const {
  check_sound(encoded.span());
  const auto file = library_->open(encoded.span());
  const SoundFormat format = file->format();
  check_format(format, options_);
  const SoundPart part = part_of(format, options_, id);
  auto sound = mixed(read_part(*file, part, options_.limits), format.channels, options_.channels);
  if (format.rate != options_.rate) sound = resampled(*library_, sound, part, format, options_);
  write_sound(sound, part, static_cast<std::size_t>(options_.channels), slot);
  return part.length;
}

}  // namespace millrace::decode
