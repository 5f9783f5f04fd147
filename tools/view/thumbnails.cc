#include "tools/view/thumbnails.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "decode/encode.h"
#include "io/base/base64.h"
#include "io/base/error.h"
#include "io/local_path.h"
#include "tools/metered_opener.h"
#include "tools/per_shard.h"
#include "tools/progress.h"
#include "wds/member_name.h"
#include "wds/shard_reader.h"

namespace millrace::tools {
namespace {

// What is read rather than passed over by opening the shard again.
constexpr std::uint64_t kReadOn = std::uint64_t{1} << 20;

/// Some pictures of one shard, by their offsets.
using WantedPictures = std::vector<const SurveyedPicture*>;
using Drawing = Thumbnails::Drawing;
using Drawn = std::vector<Drawing>;

Thumbnail thumbnail_of(const io::Bytes& encoded, bool tolerate_truncated) {
  const decode::Image image = shrunk(
      decode::decode_image(encoded, {.channels = 3, .tolerate_truncated = tolerate_truncated}),
      Thumbnails::kSide);
  const io::Bytes jpeg = decode::encode_jpeg(image, {.quality = 80});
  const auto bytes = jpeg.span();
  return {.width = image.width,
          .height = image.height,
          .base64 = base64({reinterpret_cast<const char*>(bytes.data()), bytes.size()})};
}

/// The wanted pictures of one shard.
class ShardThumbnails {
 public:
  ShardThumbnails(const std::string& url, const io::Opener& opener, const ThumbnailInput& input)
      : url_(url), opener_(opener), input_(input) {}

  Drawn draw(const WantedPictures& wanted) {
    Drawn drawn;
    for (const SurveyedPicture* picture : wanted) drawn.push_back(draw(*picture));
    return drawn;
  }

 private:
  Drawing draw(const SurveyedPicture& picture) {
    Drawing drawing{.picture = &picture};
    try {
      const auto name = wds::split_member_name(picture.member);
      const wds::Sample* sample = name ? find(picture.offset) : nullptr;
      const bool is_same = sample != nullptr && sample->key == name->key;
      const wds::Field* field = is_same ? sample->find(name->suffix) : nullptr;
      if (field == nullptr)
        drawing.missing = "the shard has changed since";
      else
        drawing.thumbnail = thumbnail_of(field->data, input_.tolerate_truncated);
    } catch (const Error& fault) {
      if (fault.code() == ErrorCode::kCancelled) throw;
      drawing.missing = fault.message();
    }
    return drawing;
  }

  /// Null: no sample begins there.
  const wds::Sample* find(std::uint64_t offset) {
    if (!is_near(offset)) open(offset);
    while (sample_.offset < offset || sample_.fields.empty()) {
      if (step()) continue;
      reader_.reset();
      return nullptr;
    }
    return sample_.offset == offset ? &sample_ : nullptr;
  }

  /// Whether the reader gets there without being opened again.
  bool is_near(std::uint64_t offset) const {
    if (!reader_ || sample_.offset > offset) return false;
    return sample_.offset == offset || reader_->compressed() ||
           offset < reader_->position() + kReadOn;
  }

  void open(std::uint64_t offset) {
    sample_ = {};
    reader_.emplace(opener_, url_,
                    wds::ShardOptions{.lenient = true, .offset = offset, .stop = input_.stop});
  }

  /// Reads the next sample, past damaged ones; false at the end.
  bool step() {
    for (;;) {
      try {
        return reader_->next(sample_);
      } catch (const Error& fault) {
        if (fault.code() == ErrorCode::kCancelled) throw;
        if (!reader_->can_continue()) return false;
      }
    }
  }

  const std::string& url_;
  const io::Opener& opener_;
  const ThumbnailInput& input_;
  std::optional<wds::ShardReader> reader_;
  wds::Sample sample_;
};

}  // namespace

void Thumbnails::want(const SurveyedPicture& picture) { thumbnails_.try_emplace(&picture); }

void Thumbnails::read(std::span<const SetSurvey> surveys, const ThumbnailInput& input) {
  std::map<std::string, WantedPictures> wanted;
  for (const auto& [picture, empty] : thumbnails_) {
    const std::string& url = surveys[picture->set].shards[picture->shard].url;
    if (io::can_reopen(url))
      wanted[url].push_back(picture);
    else
      miss(*picture, "their shard can be read only once");
  }
  std::vector<std::string> urls;
  for (auto& [url, pictures] : wanted) {
    std::ranges::stable_sort(pictures, {}, &SurveyedPicture::offset);
    urls.push_back(url);
  }
  Progress progress(input.terminal, "shards", urls.size(), "drawing the pictures");
  const auto opener = progress.follow(borrowed(input.opener), urls);
  std::size_t bytes = 0;
  std::uint64_t done = 0;
  per_shard<Drawn>(
      {.shards = urls, .threads = input.threads, .stop = input.stop},
      [&](const std::string& url) {
        return ShardThumbnails(url, *opener, input).draw(wanted.at(url));
      },
      [&](Drawn drawn) {
        for (Drawing& one : drawn) take(one, bytes);
        progress.at(++done);
      });
}

void Thumbnails::take(Drawing& drawing, std::size_t& bytes) {
  if (drawing.missing.empty() && (bytes += drawing.thumbnail.base64.size()) > kMostBytes)
    drawing.missing = "the page would be too large";
  if (drawing.missing.empty())
    thumbnails_.at(drawing.picture) = std::move(drawing.thumbnail);
  else
    miss(*drawing.picture, drawing.missing);
}

void Thumbnails::miss(const SurveyedPicture& picture, const std::string& why) {
  ++missing_[why];
  reasons_[&picture] = why;
}

std::string Thumbnails::why_missing(const SurveyedPicture& picture) const {
  const auto found = reasons_.find(&picture);
  return found == reasons_.end() ? std::string() : found->second;
}

std::size_t Thumbnails::num_missing() const {
  std::size_t sum = 0;
  for (const auto& [why, count] : missing_) sum += count;
  return sum;
}

const Thumbnail* Thumbnails::of(const SurveyedPicture& picture) const {
  const auto found = thumbnails_.find(&picture);
  return found == thumbnails_.end() || found->second.base64.empty() ? nullptr : &found->second;
}

}  // namespace millrace::tools
