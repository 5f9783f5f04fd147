#include "io/detail/http/http_source.h"

#include <algorithm>
#include <utility>

#include "io/detail/http/parts_ahead.h"

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

// What a reader of a distant object has in flight ahead: what a link of 5 Gbit/s holds, its rate
// times the round trip. A link of 1 Gbit/s needs so much, since a connection brings nothing until
// it has its request, and its rate starts low.
std::size_t parts_ahead(Clock::Duration round_trip, std::uint64_t part_bytes) {
  constexpr double kLinkBytesPerS = 640e6;
  constexpr double kLeast = 4;
  const double seconds = std::chrono::duration<double>(round_trip).count();
  return static_cast<std::size_t>(
      std::clamp(seconds * kLinkBytesPerS / static_cast<double>(part_bytes), kLeast, 1e3));
}

std::string range_line(const ByteRange& range) {
  return "Range: bytes=" + std::to_string(range.begin) + "-" + std::to_string(range.end - 1);
}

// Whether other requests may share a request's connection.
enum class Connection { kAny, kOwn };

// Identifies one version of an object. An empty member is unknown.
struct Version {
  std::string etag;       // a strong one
  std::string weak_etag;  // two versions may share it
  std::string last_modified;
  std::optional<std::uint64_t> size;
};

Version version_of(const HttpHead& head, std::optional<std::uint64_t> size) {
  const std::string etag(head.field("etag"));
  const bool strong = !strong_etag(head).empty();
  return {.etag = strong ? etag : "",
          .weak_etag = strong ? "" : etag,
          .last_modified = std::string(head.field("last-modified")),
          .size = size};
}

// What a weak ETag has in common with a strong one of the same version (RFC 9110, 8.8.3.2).
std::string_view opaque_tag(const Version& version) {
  std::string_view tag = version.etag.empty() ? version.weak_etag : version.etag;
  if (tag.starts_with("W/")) tag.remove_prefix(2);
  return tag;
}

bool differ(std::string_view a, std::string_view b) { return !a.empty() && !b.empty() && a != b; }

// Whether `now` lacks what the version is known by, as what a cache or another server gives of a
// second version may.
bool lacks(const Version& known, const Version& now) {
  if (!known.etag.empty()) return now.etag.empty();
  return (!known.weak_etag.empty() && opaque_tag(now).empty()) ||
         (!known.last_modified.empty() && now.last_modified.empty());
}

bool differ(const Version& known, const Version& now) {
  return lacks(known, now) || differ(opaque_tag(known), opaque_tag(now)) ||
         differ(known.last_modified, now.last_modified) ||
         (known.size && now.size && *known.size != *now.size);
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
        backoff_(client_->options.retry, client_->budget),
        ahead_(client_->parts) {
    // open() does not wait for a server, not even for one that has our credentials.
    if (!target_.signer || target_.signer->ready()) next_response();
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
    stop_looking_ahead();
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
  // What is in flight ahead arrives sooner than its connections are made again.
  std::uint64_t least_gap() const {
    if (!ahead_.empty()) return ahead_.end() - position_ + kWideGap;
    return expected_ > 0 && *body_end_ - position_ <= kLittleLeft ? kNarrowGap : kWideGap;
  }
  void next_response();
  std::uint64_t next_window();
  std::optional<std::uint64_t> next_part_end();
  std::unique_ptr<HttpExchange> request(std::string range,
                                        Connection connection = Connection::kAny);
  std::unique_ptr<HttpExchange> request_part(ByteRange range);
  bool lacks_version() const;
  bool may_split() const;
  void leave_parts();
  std::uint64_t next_part_bytes();
  void look_ahead();
  void top_up();
  void stop_looking_ahead();
  bool is_slow();
  void outrun();
  std::optional<bool> second_wins(HttpExchange& second);
  void read_first_complete(std::unique_ptr<HttpExchange> second);
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
  bool splits_ = true;  // reading in parts has not turned out to be wrong
  PartsAhead ahead_;    // behind the response that is being read
  std::size_t most_ahead_ = 0;
  std::uint64_t part_bytes_ = 0;  // of the last part that was asked for

  // State of the response that is being read.
  std::unique_ptr<HttpExchange> exchange_;
  bool accepted_ = false;
  std::uint64_t skip_ = 0;                   // bytes of it before position_, still to be dropped
  std::optional<std::uint64_t> body_end_;    // offset in the object where it must end
  bool cut_ = false;                         // it goes beyond: the parts ahead begin at body_end_
  std::optional<std::uint64_t> part_end_;    // it was asked for as a part, which ends here
  std::optional<ResponseTimes> slow_after_;  // and may be asked for twice after so long
};

std::size_t HttpSource::try_read(std::span<std::byte> into) {
  if (!exchange_) next_response();
  top_up();
  outrun();
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

// The part ahead that begins here, or a new request.
void HttpSource::next_response() {
  accepted_ = false;
  cut_ = false;
  part_end_.reset();
  slow_after_.reset();
  if (ahead_.begins_at(position_)) {
    ByteRange range;
    exchange_ = ahead_.take(range);
    part_end_ = range.end;
  } else if (!use_range_) {
    exchange_ = request("");
  } else if (window_ > 0) {
    exchange_ = request(range_line({position_, position_ + next_window()}));
  } else if ((part_end_ = next_part_end())) {
    // Over HTTP/2 a connection that is there already brings the first bytes round trips sooner.
    const bool first = position_ == start_;
    exchange_ =
        request(range_line({position_, *part_end_}), first ? Connection::kAny : Connection::kOwn);
  } else {
    exchange_ = request("Range: bytes=" + std::to_string(position_) + "-");
  }
  if (part_end_) slow_after_ = client_->servers.slow_after(target_.url);
}

// What is read on and on is asked for in growing pieces, so that round trips do not add up.
std::uint64_t HttpSource::next_window() {
  constexpr std::uint64_t kLargest = kWideGap;
  return std::exchange(window_, window_ > kLargest ? 0 : 2 * window_);
}

// Where a request for a part at position_ ends; nullopt: all of the object is asked for.
std::optional<std::uint64_t> HttpSource::next_part_end() {
  if (!ahead_.empty()) return ahead_.begin();
  if (!splits_ || !client_->servers.gives_parts(target_.url) || !ahead_.may_grow(1))
    return std::nullopt;
  const std::uint64_t part = next_part_bytes();
  return position_ + std::min(part, version_.size ? *version_.size - position_ : part);
}

std::unique_ptr<HttpExchange> HttpSource::request(std::string range, Connection connection) {
  std::vector<std::string> lines{"Accept-Encoding: identity"};
  if (!range.empty()) lines.push_back(std::move(range));
  if (!version_.etag.empty()) {
    lines.push_back("If-Match: " + version_.etag);
  } else if (!version_.last_modified.empty()) {
    lines.push_back("If-Unmodified-Since: " + version_.last_modified);
  }
  return std::make_unique<HttpExchange>(
      *client_, target_,
      HttpRequest{.header_lines = std::move(lines),
                  .own_connection = connection == Connection::kOwn,
                  .limit = backoff_.left(client_->options.clock->now())},
      stop_);
}

std::unique_ptr<HttpExchange> HttpSource::request_part(ByteRange range) {
  return request(range_line(range), Connection::kOwn);
}

std::optional<HttpFault> HttpSource::await_response() {
  while (!accepted_ && !ended_) {
    if (!exchange_) next_response();
    if (auto problem = exchange_->wait_for_head(stop_)) return problem;
    if (auto problem = accept()) return problem;
    if (!exchange_) continue;
    accepted_ = !lacks_version();
    if (!accepted_) {
      leave_parts();
      exchange_.reset();
    } else if (!ended_) {
      look_ahead();
      top_up();
    }
  }
  return std::nullopt;
}

// ---- parts of a distant object

// Parts of several responses must be known to be of one version.
bool HttpSource::lacks_version() const {
  return part_end_ && exchange_->head().status() == 206 &&
         (strong_etag(exchange_->head()).empty() || !version_.size);
}

bool HttpSource::may_split() const {
  return splits_ && use_range_ && knows_ranges_ && !version_.etag.empty() && version_.size &&
         body_end_ && skip_ == 0 && window_ == 0 &&
         exchange_->round_trip() >= client_->options.far_round_trip;
}

// Parts that begin together and are of one size would end together, and leave the link idle until
// the next ones come. So they grow.
std::uint64_t HttpSource::next_part_bytes() {
  const std::uint64_t most = client_->parts.part_bytes();
  part_bytes_ = std::min(most, part_bytes_ + most / 8);
  return part_bytes_;
}

void HttpSource::stop_looking_ahead() {
  most_ahead_ = 0;
  ahead_.clear();
}

void HttpSource::leave_parts() {
  splits_ = false;
  stop_looking_ahead();
  client_->servers.set_gives_parts(target_.url, false);
}

// Whether and how far to read ahead of the response that has just begun.
void HttpSource::look_ahead() {
  most_ahead_ = 0;
  if (!may_split()) return;
  client_->servers.set_gives_parts(target_.url, true);
  most_ahead_ = parts_ahead(exchange_->round_trip(), client_->parts.part_bytes());
  // The first response of a server that turns out to be distant has no end of its own.
  if (part_end_ || *body_end_ - position_ <= 2 * client_->parts.part_bytes()) return;
  if (!ahead_.may_grow(most_ahead_)) return;
  cut_ = true;
  body_end_ = position_ + next_part_bytes();
}

// Asks for as much as may be in flight.
void HttpSource::top_up() {
  ahead_.advance();
  // The connection of a response that is cut is lost. A new one is slow if it is made later, when
  // the others fill the link.
  const std::size_t most = most_ahead_ + (cut_ ? 1 : 0);
  while (most_ahead_ > 0 && (accepted_ || !ahead_.empty()) && ahead_.may_grow(most)) {
    const std::uint64_t begin = ahead_.empty() ? *body_end_ : ahead_.end();
    if (begin >= *version_.size) return;
    const ByteRange range{begin, begin + std::min(next_part_bytes(), *version_.size - begin)};
    if (!ahead_.add(range, [&] { return request_part(range); })) return;
  }
}

// Waits until the part has something to give, or is slow.
bool HttpSource::is_slow() {
  using Awaited = HttpTransfer::Awaited;
  const Clock::TimePoint asked = exchange_->transfer().asked_at();
  if (!exchange_->wait_until(Awaited::kHead, asked + slow_after_->head, stop_)) return true;
  if (!exchange_->wait_until(Awaited::kBody, asked + slow_after_->whole, stop_)) return true;
  return !exchange_->transfer().settled() && Clock::system().now() > asked + slow_after_->whole;
}

// What is left of a part that takes much longer than others is asked for once more.
void HttpSource::outrun() {
  if (!slow_after_ || skip_ > 0 || position_ >= *part_end_ || !is_slow()) return;
  slow_after_.reset();
  const PartBudget::Held held = client_->parts.take();
  if (!held) return;
  client_->news.second_request(target_.name);
  read_first_complete(request_part({position_, *part_end_}));
}

// Whether the part that is read has lost against the second request for it; nullopt: not decided.
std::optional<bool> HttpSource::second_wins(HttpExchange& second) {
  exchange_->advance();
  second.advance();
  const HttpTransfer& other = second.transfer();
  const long status = other.status();
  if (exchange_->transfer().has_failed()) return true;
  if (exchange_->transfer().settled()) return false;
  if (other.has_failed() || status >= 400 || status == 200) return false;
  if (status == 206 && other.settled()) return true;
  return std::nullopt;
}

// The one that has not arrived first is aborted.
void HttpSource::read_first_complete(std::unique_ptr<HttpExchange> second) {
  constexpr std::chrono::milliseconds kLookEvery{10};
  constexpr std::chrono::milliseconds kLongWait{2'000};
  const Clock::TimePoint long_wait = Clock::system().now() + kLongWait;
  std::optional<bool> second_wins_it;
  while (!(second_wins_it = second_wins(*second))) {
    if (!Clock::system().sleep_for(kLookEvery, stop_))
      throw Error(ErrorCode::kCancelled, "reading was stopped");
    if (Clock::system().now() > long_wait) client_->news.wait(target_.name, "no data", kLongWait);
  }
  if (!*second_wins_it) return;
  const Clock::Duration waited = Clock::system().now() - exchange_->transfer().asked_at();
  client_->servers.took(target_.url, {.head = exchange_->transfer().times().head, .whole = waited});
  exchange_ = std::move(second);
  accepted_ = false;
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
  if (part_end_) leave_parts();
  splits_ = false;
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
  // Then it is left, and asked for by a request for all that follows.
  if (part_end_ && strong_etag(head).empty()) return std::nullopt;
  if (auto problem = accept_version(version_of(head, range->total))) return problem;
  skip_ = 0;
  knows_ranges_ = true;
  body_end_ = *range->last + 1;
  // More than was asked for: it is read on, as if all had been.
  if (part_end_ && *body_end_ > *part_end_) leave_parts();
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
  // Some stores say this of an empty object, without its size: all of it is asked for.
  if (!range && position_ == 0 && std::exchange(use_range_, false)) {
    exchange_.reset();
    return std::nullopt;
  }
  if (!range || !range->total || *range->total > position_) {
    return misanswered("status 416 to a range inside the object");
  }
  // Such an answer is about the size alone.
  Version version = version_;
  version.size = range->total;
  if (auto problem = accept_version(version)) return problem;
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
  const bool unversioned = version_.etag.empty() && version_.last_modified.empty();
  if (unversioned && position_ > start_) client_->news.unversioned(target_.name);
  if (version_.etag.empty()) version_.etag = version.etag;
  if (version_.weak_etag.empty()) version_.weak_etag = version.weak_etag;
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
  if (nothing_handed_on) {
    version_ = {};
    stop_looking_ahead();
  }
  return fault(ErrorCode::kIo, "the object changed while it was read", nothing_handed_on);
}

std::size_t HttpSource::receive(std::span<std::byte> into) {
  while (skip_ > 0) {
    const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(skip_, into.size()));
    const std::size_t got = exchange_->read(into.first(most), stop_);
    if (got == 0) return 0;
    skip_ -= got;
  }
  if (cut_) {
    const std::uint64_t left = *body_end_ - position_;
    into = into.first(static_cast<std::size_t>(std::min<std::uint64_t>(left, into.size())));
    if (into.empty()) return 0;
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
  if (part_end_ && whole && position_ == *part_end_)
    client_->servers.took(target_.url, exchange_->transfer().times());
  exchange_.reset();
  // A server may send less than was asked for, as long as it says so: the rest needs another
  // request.
  if (size_is_open_ || (version_.size && position_ < *version_.size)) return std::nullopt;
  version_.size = position_;
  ended_ = true;
  stop_looking_ahead();
  return std::nullopt;
}

void HttpSource::recover(const HttpFault& fault) {
  exchange_.reset();
  if (use_range_) {
    ahead_.failed();
  } else {
    stop_looking_ahead();
  }
  wait_for_next_try(*client_, target_.name, backoff_, fault, stop_);
}

}  // namespace

std::unique_ptr<ByteSource> open_http(std::shared_ptr<HttpClient> client, HttpTarget target,
                                      const OpenOptions& options) {
  return std::make_unique<HttpSource>(std::move(client), std::move(target), options);
}

}  // namespace millrace::io::detail
