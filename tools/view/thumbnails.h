// Thumbnails: some pictures of surveyed sets, small, as JPEG in base64: what a page shows without
// fetching anything.
//
//   Thumbnails thumbnails;
//   for (const SurveyedPicture* picture : shown) thumbnails.want(*picture);
//   thumbnails.read(surveys, {.opener = *opener, .stop = stop});
//   thumbnails.of(*picture);
//
// They are read again where the survey found them, those of a shard in one go where they are close
// to each other or the shard is compressed. What cannot be read a second time, as standard
// input, or is another sample by now, has no thumbnail; missing() says why.
//
// Buffers: one sample for each thread, kMostBytes of thumbnails. Threads: one at a time.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "io/opener.h"
#include "tools/view/set_survey.h"

namespace millrace::trainer {
class TerminalLine;
}

namespace millrace::tools {

struct Thumbnail {
  int width = 0;
  int height = 0;
  std::string base64;  ///< of a JPEG file
};

struct ThumbnailInput {
  const io::Opener& opener;
  std::stop_token stop = {};
  bool tolerate_truncated = false;
  int threads = 0;                            ///< 0: one per core
  trainer::TerminalLine* terminal = nullptr;  ///< borrowed; null: none
};

class Thumbnails {
 public:
  static constexpr int kSide = 128;
  /// A picture's thumbnail, or why there is none.
  struct Drawing {
    const SurveyedPicture* picture = nullptr;
    Thumbnail thumbnail = {};
    std::string missing = {};
  };
  static constexpr std::size_t kMostBytes = std::size_t{24} << 20;

  /// Lifetime: `picture` is referred to.
  void want(const SurveyedPicture& picture);
  /// Throws: Cancelled.
  void read(std::span<const SetSurvey> surveys, const ThumbnailInput& input);
  /// Null: there is none.
  const Thumbnail* of(const SurveyedPicture& picture) const;
  /// Wanted ones that there are not, by the reason.
  const std::map<std::string, std::size_t>& missing() const { return missing_; }
  std::size_t num_missing() const;
  /// Why there is none of it; empty: there is one, or it was not wanted.
  std::string why_missing(const SurveyedPicture& picture) const;

 private:
  void take(Drawing& drawing, std::size_t& bytes);
  void miss(const SurveyedPicture& picture, const std::string& why);

  std::map<std::string, std::size_t> missing_;
  std::map<const SurveyedPicture*, std::string> reasons_;
  std::map<const SurveyedPicture*, Thumbnail> thumbnails_;
};

}  // namespace millrace::tools
