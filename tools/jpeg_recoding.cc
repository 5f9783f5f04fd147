#include "tools/jpeg_recoding.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <nlohmann/json.hpp>

#include "decode/codec.h"
#include "decode/jpeg_restarts.h"
#include "io/base/error.h"
#include "io/base/text.h"
#include "tools/shared_work.h"
#include "tools/values.h"

namespace millrace::tools {
namespace {

constexpr std::string_view kJpegCodec = "JPEG";

enum class Content { kJpeg, kOtherPicture, kNoPicture };

/// By the content, as readers do; what is called a picture and is none counts as one too.
Content content_of(const std::string& suffix, const io::Bytes& data) {
  const decode::CodecTable& codecs = *decode::standard_codecs();
  if (const decode::Codec* codec = codecs.of_content(data.span()))
    return codec->name == kJpegCodec ? Content::kJpeg : Content::kOtherPicture;
  const bool named = codecs.of_suffix(suffix.substr(suffix.rfind('.') + 1)) != nullptr;
  return named ? Content::kOtherPicture : Content::kNoPicture;
}

}  // namespace

void JpegRecoding::declare(CLI::App& app) {
  app.add_option("--jpeg", how_,
                 "restarts: re-code JPEGs without loss, with restart markers, so that a crop is "
                 "decoded without the rest [JPEGs stay as they are]")
      ->transform(one_of({"restarts"}))
      ->default_str("");
}

io::Bytes JpegRecoding::recoded(const std::string& suffix, const io::Bytes& data) {
  const Content content = content_of(suffix, data);
  if (content == Content::kNoPicture) return data;
  if (content == Content::kOtherPicture) {
    ++other_formats_;
    return data;
  }
  try {
    io::Bytes file = decode::add_restarts(data);
    ++recoded_;
    bytes_before_ += data.size();
    bytes_after_ += file.size();
    return file;
  } catch (const Error& error) {
    const bool kind =
        error.code() == ErrorCode::kUnsupported || error.code() == ErrorCode::kExhausted;
    ++(kind ? unsupported_ : damaged_);
    return data;
  }
}

std::string JpegRecoding::summary(trainer::Cluster& cluster) const {
  if (!wanted()) return {};
  std::array<std::uint64_t, 6> sums = {};
  const nlohmann::json own = {recoded_.load(),       bytes_before_.load(), bytes_after_.load(),
                              other_formats_.load(), unsupported_.load(),  damaged_.load()};
  for (const nlohmann::json& process : of_processes(cluster, own))
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += process.at(i).get<std::uint64_t>();
  const auto [recoded, before, after, others, unsupported, damaged] = sums;
  std::string text = "; " + counted(recoded, "JPEG") + " re-coded with restart markers";
  if (before > 0)
    text += fmt::format(" ({:+.1f} % bytes)",
                        100 * (static_cast<double>(after) / static_cast<double>(before) - 1));
  const auto add = [&](std::uint64_t count, const char* why) {
    if (count > 0)
      text += fmt::format(", {} left as {}: {}", count, count == 1 ? "it is" : "they are", why);
  };
  add(others, "not JPEG");
  add(unsupported, "of a kind that cannot be");
  add(damaged, "damaged");
  return text;
}

}  // namespace millrace::tools
