#include "io/detail/http_source.h"

#include <algorithm>
#include <utility>

namespace millrace::io::detail {
namespace {

// Skipping sends a new request on a new connection, since aborting a body loses its connection. By
// then the ring buffer's 4 MiB are in flight, and about as much more would arrive during the three
// round trips of a new connection (25 ms each, at 50 MiB/s).
constexpr std::uint64_t kWideGap = std::uint64_t{8} * 1024 * 1024;
// Where so little of a response is left that it has arrived, its connection stays, and skipping
// costs a round trip alone.
constexpr std::uint64_t kLittleLeft = std::uint64_t{64} * 1024;
constexpr std::uint64_t kNarrowGap = std::uint64_t{1024} * 1024;

// Identifies one version of an object. An empty member is unknown.
struct Version {
  std::string etag;
  std::string last_modified;
  std::optional<std::uint64_t> size;
};

Version version_of(const HttpHead& head, std::optional<std::uint64_t> size) {
  return {std::string(strong_etag(head)), std::string(head.field("last-modified")), size};
}

bool differ(const std::string& a, const std::string& b) {
  return !a.empty() && !b.empty() && a != b;
}

bool differ(const Version& a, const Version& b) {
  return differ(a.etag, b.etag) || differ(a.last_modified, b.last_modified) ||
         (a.size && b.size && *a.size != *b.size);
}

HttpFault fault(ErrorCode code, std::string message, bool retry) {
  return {.error = Error(code, std::move(message)), .retry = retry};
}

class HttpSource final : public ByteSource {
 public:
  HttpSource(std::shared_ptr<HttpClient> client, HttpTarget target, const OpenOptions& options)
      : client_(std::move(client)),
        target_(std::move(target)),
        start_(options.offset),
        position_(options.offset),
        expected_(options.expected),
        window_(options.expected),
        stop_(options.stop),
        backoff_(client_->options.retry, client_->budget) {
    // open() does not wait for a server, not even for one that has our credentials.
    if (!target_.signer || target_.signer->ready()) ask();
  }

  std::size_t read(std::span<std::byte> into) override {
    backoff_.begin(client_->options.clock->now());
    try {
      while (!ended_) {
        if (const std::size_t got = try_read(into)) return got;
      }
      return 0;
    } catch (Error& error) {
      error.annotate({.url = target_.name, .offset = position_});
      throw;
    }
  }
  // Only once a response has shown that the server supports ranges and how large the object is.
  bool skip(std::uint64_t bytes) override {
    const bool ranged = accepted_ && body_end_ && version_.size && skip_ == 0 && knows_ranges_;
    if (!ranged || bytes < least_gap() || bytes > *version_.size - position_) return false;
    exchange_.reset();
    accepted_ = false;
    window_ = expected_;
    position_ += bytes;
    ended_ = position_ == *version_.size;
    return true;
  }
  std::uint64_t position() const override { return position_; }
  std::optional<std::uint64_t> size() const override { return version_.size; }
  std::string version() const override {
    return version_.etag.empty() ? version_.last_modified : version_.etag;
  }
  const std::string& url() const override { return target_.name; }

 private:
  std::size_t try_read(std::span<std::byte> into);
  std::uint64_t least_gap() const {
    return expected_ > 0 && *body_end_ - position_ <= kLittleLeft ? kNarrowGap : kWideGap;
  }
  void ask();
  std::string next_range();
  std::optional<HttpFault> await_response();
  std::optional<HttpFault> accept();
  std::optional<HttpFault> accept_whole();
  std::optional<HttpFault> accept_part();
  std::optional<HttpFault> accept_past_end();
  std::optional<HttpFault> accept_version(const Version& version);
  std::size_t receive(std::span<std::byte> into);
  std::optional<HttpFault> end_of_body();
  HttpFault misanswered(const std::string& how);
  HttpFault changed();
  void recover(const HttpFault& fault);

  std::shared_ptr<HttpClient> client_;
  HttpTarget target_;
  std::uint64_t start_;
  std::uint64_t position_;
  const std::uint64_t expected_;  // 0: all
  std::uint64_t window_;          // what the next request is for; 0: all
  std::stop_token stop_;
  Backoff backoff_;

  Version version_;
  bool use_range_ = true;
  bool knows_ranges_ = false;
  bool size_is_open_ = false;  // "bytes 0-9/*": only further requests find the end
  bool ended_ = false;

  // State of the response that is being read.
  std::unique_ptr<HttpExchange> exchange_;
  bool accepted_ = false;
  std::uint64_t skip_ = 0;                 // bytes of it before position_, still to be dropped
  std::optional<std::uint64_t> body_end_;  // offset in the object where it must end
};

std::size_t HttpSource::try_read(std::span<std::byte> into) {
  std::optional<HttpFault> problem = await_response();
  if (!problem && !ended_) {
    if (const std::size_t got = receive(into)) {
      if (!body_end_ || position_ + got <= *body_end_) {
        position_ += got;
        backoff_.progressed(got);
        return got;
      }
      problem = fault(ErrorCode::kCorrupt, "the server sent more bytes than it announced", true);
    } else {
      problem = end_of_body();
    }
  }
  if (problem) recover(*problem);
  return 0;
}

void HttpSource::ask() {
  std::vector<std::string> lines{"Accept-Encoding: identity"};
  if (use_range_) lines.push_back(next_range());
  if (!version_.etag.empty()) {
    lines.push_back("If-Match: " + version_.etag);
  } else if (!version_.last_modified.empty()) {
    lines.push_back("If-Unmodified-Since: " + version_.last_modified);
  }
  accepted_ = false;
  exchange_ =
      std::make_unique<HttpExchange>(*client_, target_,
                                     HttpAsk{.header_lines = std::move(lines),
                                             .limit = backoff_.left(client_->options.clock->now())},
                                     stop_);
}

// What is read on and on is asked for in growing pieces, so that round trips do not add up.
std::string HttpSource::next_range() {
  constexpr std::uint64_t kLargest = kWideGap;
  std::string range = "Range: bytes=" + std::to_string(position_) + "-";
  if (window_ > 0) range += std::to_string(position_ + window_ - 1);
  window_ = window_ > kLargest ? 0 : 2 * window_;
  return range;
}

std::optional<HttpFault> HttpSource::await_response() {
  if (!exchange_) ask();
  if (accepted_) return std::nullopt;
  if (auto problem = exchange_->wait_for_head(stop_)) return problem;
  if (auto problem = accept()) return problem;
  accepted_ = true;
  return std::nullopt;
}

std::optional<HttpFault> HttpSource::accept() {
  const HttpHead& head = exchange_->head();
  const std::string_view encoding = head.field("content-encoding");
  if (!encoding.empty() && encoding != "identity") {
    return fault(ErrorCode::kUnsupported,
                 "the server sends Content-Encoding " + std::string(encoding), false);
  }
  switch (head.status()) {
    case 200:
      return accept_whole();
    case 206:
      return accept_part();
    case 412:
      return changed();
    case 416:
      return accept_past_end();
    default:
      return exchange_->refusal(stop_);
  }
}

// The server may ignore a Range: then the body starts at the object's beginning.
std::optional<HttpFault> HttpSource::accept_whole() {
  const std::optional<std::uint64_t> length = content_length(exchange_->head());
  if (auto problem = accept_version(version_of(exchange_->head(), length))) return problem;
  skip_ = position_;
  body_end_ = version_.size;
  size_is_open_ = false;
  if (body_end_ && *body_end_ < position_) {
    return fault(ErrorCode::kTruncated,
                 "the object ends at " + std::to_string(*body_end_) + ", before the offset", false);
  }
  return std::nullopt;
}

std::optional<HttpFault> HttpSource::accept_part() {
  const HttpHead& head = exchange_->head();
  const std::optional<ContentRange> range = content_range(head);
  if (!use_range_ || !range || !range->first || *range->first != position_) {
    return misanswered("another range than the one asked for");
  }
  const std::uint64_t size = *range->last - *range->first + 1;
  if (content_length(head).value_or(size) != size) return misanswered("lengths that disagree");
  if (auto problem = accept_version(version_of(head, range->total))) return problem;
  skip_ = 0;
  knows_ranges_ = true;
  body_end_ = *range->last + 1;
  size_is_open_ = !version_.size;
  return std::nullopt;
}

// 416 "Range Not Satisfiable" is how a server says that the offset is at the end.
std::optional<HttpFault> HttpSource::accept_past_end() {
  const std::optional<ContentRange> range = content_range(exchange_->head());
  if ((!range || !range->total) && size_is_open_) {
    ended_ = true;
    return std::nullopt;
  }
  if (!range || !range->total || *range->total > position_) {
    return misanswered("status 416 to a range inside the object");
  }
  if (auto problem = accept_version({.etag = {}, .last_modified = {}, .size = range->total})) {
    return problem;
  }
  if (*range->total < position_) {
    return fault(ErrorCode::kTruncated,
                 "the object ends at " + std::to_string(*range->total) + ", before the offset",
                 false);
  }
  ended_ = true;
  return std::nullopt;
}

std::optional<HttpFault> HttpSource::accept_version(const Version& version) {
  if (differ(version_, version)) return changed();
  if (version_.etag.empty()) version_.etag = version.etag;
  if (version_.last_modified.empty()) version_.last_modified = version.last_modified;
  if (!version_.size) version_.size = version.size;
  return std::nullopt;
}

// The next try sends no Range: returning the whole object is what every server gets right.
HttpFault HttpSource::misanswered(const std::string& how) {
  const bool retry = std::exchange(use_range_, false);
  return fault(ErrorCode::kCorrupt, "the server answered with " + how, retry);
}

HttpFault HttpSource::changed() {
  const bool nothing_handed_on = position_ == start_;
  if (nothing_handed_on) version_ = {};
  return fault(ErrorCode::kCorrupt, "the object changed while it was read", nothing_handed_on);
}

std::size_t HttpSource::receive(std::span<std::byte> into) {
  while (skip_ > 0) {
    const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(skip_, into.size()));
    const std::size_t got = exchange_->read(into.first(most), stop_);
    if (got == 0) return 0;
    skip_ -= got;
  }
  return exchange_->read(into, stop_);
}

std::optional<HttpFault> HttpSource::end_of_body() {
  const bool whole = skip_ == 0 && body_end_ && position_ == *body_end_;
  if (!whole) {
    if (auto problem = exchange_->wait_for_end(stop_)) return problem;
  }
  if (skip_ > 0 || (body_end_ && !whole)) {
    return fault(ErrorCode::kTruncated, "the body ended early", true);
  }
  exchange_.reset();
  // A server may send less than was asked for, as long as it says so: the rest needs another
  // request.
  if (size_is_open_ || (version_.size && position_ < *version_.size)) return std::nullopt;
  version_.size = position_;
  ended_ = true;
  return std::nullopt;
}

void HttpSource::recover(const HttpFault& fault) {
  exchange_.reset();
  wait_for_next_try(*client_, target_.name, backoff_, fault, stop_);
}

}  // namespace

std::unique_ptr<ByteSource> open_http(std::shared_ptr<HttpClient> client, HttpTarget target,
                                      const OpenOptions& options) {
  return std::make_unique<HttpSource>(std::move(client), std::move(target), options);
}

}  // namespace millrace::io::detail
