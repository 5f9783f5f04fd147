// DecodedCache: decoded pictures, kept so that each one of a small set is decoded once.
//
//   auto cache = std::make_shared<DecodedCache>(DecodedCacheOptions{.bytes = 2'000'000'000});
//   ImageDecoder decoder({.transforms = {...}, .cache = cache});
//   decoder.decode(bytes, id, slot);   // the same bits as without
//
// A picture is kept whole, in the channels and at the scale (1, or a JPEG's 1/2 to 1/8) in which a
// decoder needed it, before any transform: random ones differ in every epoch. It is known by its
// encoded bytes, so that it does not matter where a copy of them was read, and a file that changed
// is another picture. Nothing makes room for another: an epoch needs each picture once, so what is
// replaced would be needed as soon as what replaces it. When the cache is full, the rest of the set
// is decoded as without one.
//
// Buffers: options.bytes, with about 128 bytes per picture to find it. Threads: all members may be
// called from any number at once.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "decode/codec.h"
#include "io/base/log.h"
#include "io/base/thread_annotations.h"

namespace millrace::decode {

struct DecodedCacheOptions {
  /// Required.
  std::size_t bytes = 0;
  /// The pictures are in a file without a name in this folder, gone with the process, instead of in
  /// memory; what finds them stays there.
  std::string folder = {};
  /// Told when the file cannot be written any more.
  Log log = {};
};

/// What a decoder's pictures cost that it had to decode; of several decoders, if they share it.
/// Pictures that need no decoding (8-bit PPM and PGM) are not counted.
struct PictureMeter {
  std::atomic<std::uint64_t> decoded{0};
  std::atomic<std::uint64_t> decoded_bytes{0};  ///< of the whole pictures, decoded
  std::atomic<std::int64_t> decoding_ns{0};     ///< summed over threads
  std::atomic<std::uint64_t> found{0};          ///< pictures that a cache had instead
};

class DecodedCache {
 public:
  /// What a decoder asks for.
  struct Key {
    std::uint64_t content = 0;  ///< content_of() the encoded bytes
    std::uint64_t size = 0;     ///< of them
    std::uint32_t form = 0;     ///< form_of()
    std::int32_t scale = 1;

    bool operator==(const Key&) const = default;
  };

  /// Bytes at most that a picture takes beside its pixels.
  static constexpr std::size_t kMostBeside = 256;

  /// Throws: Exhausted (more than this machine's memory), Io (no file can be made in the folder).
  explicit DecodedCache(DecodedCacheOptions options);
  ~DecodedCache();
  DecodedCache(const DecodedCache&) = delete;
  DecodedCache& operator=(const DecodedCache&) = delete;

  const DecodedCacheOptions& options() const { return options_; }
  /// Bytes of memory, not of the file, that it may take.
  std::size_t memory_bytes() const { return options_.folder.empty() ? options_.bytes : 0; }
  /// Used of them, or of the file.
  std::size_t used_bytes() const { return used_.load(std::memory_order_relaxed); }
  /// Pictures that are kept.
  std::uint64_t size() const { return pictures_.load(std::memory_order_relaxed); }

  static std::uint64_t content_of(std::span<const std::byte> encoded);
  /// A number for what a decoder makes of the same bytes: equal for equal descriptions.
  std::uint32_t form_of(const std::string& description);
  /// One that no other decoder has.
  std::uint32_t new_form();

  /// The rows of `box` of a kept picture, in their whole width; nullopt if it is not kept.
  /// `buffer`: for pictures in a file. Lifetime: the cache's, or until the buffer changes.
  std::optional<PixelView> find(const Key& key, const Box& box, std::vector<std::uint8_t>& buffer);
  /// Whether a picture of so many bytes may still be kept.
  bool has_room(std::size_t bytes) const;
  /// Keeps a whole picture, if there is still room for it and it is not there.
  void keep(const Key& key, const PixelView& whole);

 private:
  struct Place {
    std::size_t offset = 0;
    int width = 0;
    int height = 0;
    int channels = 0;
    bool is_written = false;
  };
  struct HashKey {
    std::size_t operator()(const Key& key) const;
  };
  /// A part of the pictures, so that threads seldom wait for each other.
  struct Part {
    mutable Mutex mutex;
    std::unordered_map<Key, Place, HashKey> places MILLRACE_GUARDED_BY(mutex);
  };

  void map_memory();
  void open_file();
  Part& part_of(const Key& key) { return parts_[HashKey{}(key) % parts_.size()]; }
  std::optional<Place> claim(const Key& key, const PixelView& whole);
  std::optional<std::size_t> claim_bytes(std::size_t bytes);
  bool write(const Place& place, const PixelView& whole);
  bool read(std::size_t offset, std::span<std::uint8_t> into);
  void give_up(const char* what, int error_number);

  const DecodedCacheOptions options_;
  std::uint8_t* memory_ = nullptr;
  int file_ = -1;
  std::array<Part, 16> parts_;
  Mutex end_mutex_;
  std::size_t end_ MILLRACE_GUARDED_BY(end_mutex_) = 0;  ///< of the last picture
  std::atomic<std::size_t> used_{0};                     ///< with what finds them
  std::atomic<bool> is_closed_{false};  ///< the file failed: nothing more is kept or found
  std::atomic<std::uint64_t> pictures_{0};
  Mutex forms_mutex_;
  std::uint32_t num_forms_ MILLRACE_GUARDED_BY(forms_mutex_) = 0;
  std::unordered_map<std::string, std::uint32_t> forms_ MILLRACE_GUARDED_BY(forms_mutex_);
};

}  // namespace millrace::decode
