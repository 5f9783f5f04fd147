// Distant objects are read by several requests at a time: the same bytes, of one version, and every
// fault has the outcome that it has with one request. Every server is distant here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>

#include "io/base/error.h"
#include "io/detail/http/http_servers.h"
#include "io/detail/http/part_budget.h"
#include "io/opener.h"
#include "tests/support/fake_clock.h"
#include "tests/support/nginx.h"
#include "tests/support/scripted_http_server.h"
#include "tests/support/some_bytes.h"
#include "tests/support/temp_dir.h"

namespace millrace::io {
namespace {

using testing::After;
using testing::FakeClock;
using ::testing::HasSubstr;
using testing::http_reply;
using testing::http_serve;
using testing::ScriptedHttpServer;
using testing::ScriptedReply;
using testing::ScriptedRequest;
using testing::some_bytes;

constexpr std::string_view kTag = "ETag: \"v1\"\r\n";
constexpr std::size_t kSmallPart = 65'536;

bool is_part(const ScriptedRequest& request) {
  const std::string range = request.header("range");
  return !range.empty() && range.back() != '-';
}

class HttpParts : public ::testing::Test {
 protected:
  // The script may be asked once more while the server ends: what it holds must live as long.
  void serve(ScriptedHttpServer::Script script) {
    server_ = std::make_unique<ScriptedHttpServer>(std::move(script));
  }
  // A server whose answer to the first request for the part that holds `offset` is another one.
  void serve_but(std::uint64_t offset, std::function<ScriptedReply(std::string reply)> other) {
    serve(
        [this, offset, other = std::move(other)](const ScriptedRequest& request) -> ScriptedReply {
          std::string reply = http_serve(request, object_, kTag);
          const std::uint64_t start = request.range_start();
          const bool holds = is_part(request) && start <= offset && offset < request.range_end();
          if (!holds || changed_.exchange(true)) return {std::move(reply)};
          changed_at_ = start;
          return other(std::move(reply));
        });
  }
  HttpOptions options() const {
    return {.buffer_bytes = kSmallPart, .far_round_trip = {}, .clock = &clock_};
  }
  std::string read() const { return read_with(options()); }
  std::string read_with(const HttpOptions& http) const {
    const UrlOpener opener({.http = http});
    return std::string(read_object(opener, server_->url("/a.tar"), 1 << 24).text());
  }
  Error fault() const {
    try {
      read();
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "no fault";
    return {ErrorCode::kIo, "none"};
  }
  // Requests that begin there.
  std::size_t requests_from(std::uint64_t offset) const {
    const auto requests = server_->requests();
    return static_cast<std::size_t>(std::count_if(
        requests.begin(), requests.end(),
        [&](const ScriptedRequest& request) { return request.range_start() == offset; }));
  }
  std::size_t open_ended() const {
    const auto requests = server_->requests();
    return static_cast<std::size_t>(
        std::count_if(requests.begin(), requests.end(),
                      [](const ScriptedRequest& request) { return !is_part(request); }));
  }

  // Fewer than 20 parts, so that none is taken for slow however busy the machine is.
  std::string object_ = some_bytes(900'000);
  FakeClock clock_;
  std::atomic<bool> changed_ = false;
  std::atomic<std::uint64_t> changed_at_ = 0;
  std::unique_ptr<ScriptedHttpServer> server_;
};

TEST_F(HttpParts, EachByteIsAskedForOnceAndOfOneVersion) {
  serve([&](const ScriptedRequest& request) -> ScriptedReply {
    return {http_serve(request, object_, kTag)};
  });
  EXPECT_TRUE(read() == object_);
  std::map<std::uint64_t, std::uint64_t> ranges;
  for (const ScriptedRequest& request : server_->requests()) {
    if (!is_part(request)) continue;
    EXPECT_EQ(request.header("if-match"), "\"v1\"");
    EXPECT_LE(request.range_end() - request.range_start(), kSmallPart);
    EXPECT_TRUE(ranges.emplace(request.range_start(), request.range_end()).second);
  }
  EXPECT_EQ(open_ended(), 1U) << "the first one, when the server was unknown";
  std::uint64_t end = ranges.begin()->first;
  for (const auto& [begin, next] : ranges) {
    EXPECT_EQ(begin, std::exchange(end, next));
  }
  EXPECT_EQ(end, object_.size());
}

TEST_F(HttpParts, OfAKnownServerTheFirstRequestIsForAPartToo) {
  serve([&](const ScriptedRequest& request) -> ScriptedReply {
    return {http_serve(request, object_, kTag)};
  });
  const UrlOpener opener({.http = options()});
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(read_object(opener, server_->url("/a.tar"), 1 << 24).text() == object_);
  EXPECT_EQ(open_ended(), 1U);
}

TEST_F(HttpParts, ANearObjectIsReadByOneRequest) {
  serve([&](const ScriptedRequest& request) -> ScriptedReply {
    return {http_serve(request, object_, kTag)};
  });
  HttpOptions near = options();
  near.far_round_trip = std::chrono::hours(1);
  EXPECT_TRUE(read_with(near) == object_);
  EXPECT_EQ(server_->requests().size(), 1U);
  HttpOptions none = options();
  none.ahead_bytes = 0;
  EXPECT_TRUE(read_with(none) == object_);
  EXPECT_EQ(server_->requests().size(), 2U);
}

// Without a strong ETag the responses could be of two versions.
TEST_F(HttpParts, AnObjectWithoutAVersionIsReadByOneRequest) {
  for (const std::string tag :
       {"", "ETag: W/\"v1\"\r\n", "Last-Modified: Sat, 01 Jan 2022 00:00:00 GMT\r\n"}) {
    serve([this, tag](const ScriptedRequest& request) -> ScriptedReply {
      const bool known = request.target == "/known";
      return {http_serve(request, object_, known ? kTag : tag)};
    });
    EXPECT_TRUE(read() == object_) << tag;
    EXPECT_EQ(server_->requests().size(), 1U) << tag;
    // Where the server is known to tell versions, a part is asked for, and not kept.
    const UrlOpener opener({.http = options()});
    read_object(opener, server_->url("/known"), 1 << 24);
    const std::size_t before = server_->requests().size();
    EXPECT_TRUE(read_object(opener, server_->url("/a.tar"), 1 << 24).text() == object_) << tag;
    EXPECT_EQ(server_->requests().size(), before + 2) << tag;
    EXPECT_FALSE(is_part(server_->requests().back()));
  }
}

TEST_F(HttpParts, APartWithoutTheVersionIsNotKept) {
  serve([&](const ScriptedRequest& request) -> ScriptedReply {
    const bool late = request.range_start() > 500'000 && is_part(request);
    return {http_serve(request, object_, late ? "" : kTag)};
  });
  EXPECT_TRUE(read() == object_);
  EXPECT_EQ(open_ended(), 2U) << "the first, and one for all that follows";
  EXPECT_TRUE(clock_.sleeps().empty());
}

TEST_F(HttpParts, APartThatBreaksIsResumedAlone) {
  std::size_t failed = 0;
  for (const After after : {After::kClose, After::kReset}) {
    changed_ = false;
    serve_but(500'000, [after](const std::string& reply) -> ScriptedReply {
      return {reply.substr(0, reply.find("\r\n\r\n") + 4 + 10'000), after};
    });
    EXPECT_TRUE(read() == object_);
    EXPECT_EQ(clock_.sleeps().size(), ++failed);
    std::map<std::uint64_t, int> ends;
    for (const ScriptedRequest& request : server_->requests())
      if (is_part(request)) ++ends[request.range_end()];
    for (const auto& [end, times] : ends)
      EXPECT_EQ(times, end > changed_at_ && end <= changed_at_ + kSmallPart ? 2 : 1) << end;
  }
}

TEST_F(HttpParts, APartThatIsRefusedForAWhileIsAskedForAgain) {
  serve_but(500'000,
            [](const std::string&) -> ScriptedReply { return {http_reply(503, "", "busy")}; });
  EXPECT_TRUE(read() == object_);
  EXPECT_EQ(requests_from(changed_at_), 2U);
}

TEST_F(HttpParts, ARefusedPartIsAFaultAtItsOffset) {
  serve_but(500'000,
            [](const std::string&) -> ScriptedReply { return {http_reply(404, "", "gone")}; });
  const Error error = fault();
  EXPECT_EQ(error.code(), ErrorCode::kNotFound) << error.what();
  EXPECT_EQ(error.where().offset, changed_at_);
  EXPECT_EQ(error.where().url, server_->url("/a.tar"));
  EXPECT_EQ(requests_from(changed_at_), 1U);
  EXPECT_TRUE(clock_.sleeps().empty());
}

TEST_F(HttpParts, AnObjectThatChangesBetweenPartsIsAFault) {
  const std::vector<std::string> changes{"412", "ETag: \"v2\"\r\n", "larger", "",
                                         "ETag: W/\"v1\"\r\n"};
  for (const std::string& change : changes) {
    serve([this, change](const ScriptedRequest& request) -> ScriptedReply {
      if (request.range_start() < 500'000) return {http_serve(request, object_, kTag)};
      if (change == "412") return {http_reply(412, "", "")};
      if (change == "larger") return {http_serve(request, object_ + "more", kTag)};
      return {http_serve(request, std::string(object_.size(), 'x'), change)};
    });
    const Error error = fault();
    EXPECT_EQ(error.code(), ErrorCode::kIo) << change << ": " << error.what();
    EXPECT_THAT(error.what(), HasSubstr("changed"));
    EXPECT_GE(error.where().offset.value_or(0), 500'000U);
  }
}

TEST_F(HttpParts, AChangeBeforeTheFirstByteStartsAgain) {
  serve([&](const ScriptedRequest& request) -> ScriptedReply {
    if (request.target == "/known") return {http_serve(request, object_, kTag)};
    const std::string now = "ETag: \"v2\"\r\n";
    if (request.header("if-match") == "\"v1\"") return {http_reply(412, "", "")};
    if (changed_.exchange(true)) return {http_serve(request, object_, now)};
    const std::string old = http_serve(request, std::string(object_.size(), 'x'), kTag);
    return {old.substr(0, old.find("\r\n\r\n") + 4), After::kClose};
  });
  const UrlOpener opener({.http = options()});
  read_object(opener, server_->url("/known"), 1 << 24);
  EXPECT_TRUE(read_object(opener, server_->url("/a.tar"), 1 << 24).text() == object_);
}

TEST_F(HttpParts, ARangeThatWasNotAskedForIsNotTaken) {
  const std::string total = "/" + std::to_string(object_.size()) + "\r\n";
  for (const std::string& range : {"bytes 0-65535" + total, "bytes 500001-565536" + total,
                                   std::string("bytes 500000-500009/*\r\n"), std::string()}) {
    changed_ = false;
    serve_but(500'000, [range](const std::string& reply) -> ScriptedReply {
      const std::string body = reply.substr(reply.find("\r\n\r\n") + 4);
      return {http_reply(206, std::string(kTag) + (range.empty() ? "" : "Content-Range: " + range),
                         body)};
    });
    EXPECT_TRUE(read() == object_) << range;
  }
}

TEST_F(HttpParts, MoreThanWasAskedForIsReadOn) {
  serve_but(500'000, [&](const std::string&) -> ScriptedReply {
    return {http_reply(206,
                       std::string(kTag) + "Content-Range: bytes " + std::to_string(changed_at_) +
                           "-" + std::to_string(object_.size() - 1) + "/" +
                           std::to_string(object_.size()) + "\r\n",
                       object_.substr(changed_at_))};
  });
  EXPECT_TRUE(read() == object_);
  EXPECT_TRUE(clock_.sleeps().empty());
}

TEST_F(HttpParts, LessThanWasAskedForIsFollowedByTheRest) {
  serve_but(500'000, [&](const std::string&) -> ScriptedReply {
    return {http_reply(206,
                       std::string(kTag) + "Content-Range: bytes " + std::to_string(changed_at_) +
                           "-" + std::to_string(changed_at_ + 99) + "/" +
                           std::to_string(object_.size()) + "\r\n",
                       object_.substr(changed_at_, 100))};
  });
  EXPECT_TRUE(read() == object_);
  EXPECT_EQ(requests_from(changed_at_ + 100), 1U);
  EXPECT_TRUE(clock_.sleeps().empty());
}

TEST_F(HttpParts, AServerThatStopsKnowingRangesGivesNoByteTwice) {
  serve_but(500'000,
            [&](const std::string&) -> ScriptedReply { return {http_reply(200, kTag, object_)}; });
  EXPECT_TRUE(read() == object_);
}

TEST_F(HttpParts, PartsFollowRedirects) {
  const ScriptedHttpServer other([&](const ScriptedRequest& request) -> ScriptedReply {
    return {http_serve(request, object_, kTag)};
  });
  serve([there = other.url("/b")](const ScriptedRequest&) -> ScriptedReply {
    return {http_reply(302, "Location: " + there + "\r\n", "")};
  });
  HttpOptions with_secret = options();
  with_secret.headers = {{"Authorization", "Bearer secret"}};
  EXPECT_TRUE(read_with(with_secret) == object_);
  EXPECT_GT(other.requests().size(), 10U);
  for (const ScriptedRequest& request : other.requests())
    EXPECT_EQ(request.header("authorization"), "");
}

// The part hangs for ever; whoever waits for it alone does so until the transfer counts as stalled.
TEST_F(HttpParts, ASlowPartIsAskedForTwice) {
  const testing::TempDir dir;
  object_ = some_bytes(3'000'000);
  for (const bool has_begun : {false, true}) {
    changed_ = false;
    serve_but(2'500'000, [has_begun](const std::string& reply) -> ScriptedReply {
      return {has_begun ? reply.substr(0, reply.find("\r\n\r\n") + 4 + 10'000) : "", After::kHang};
    });
    HttpOptions told = options();
    told.log = Log::to_file(dir / "log");
    EXPECT_TRUE(read_with(told) == object_);
    EXPECT_TRUE(clock_.sleeps().empty()) << "no try has failed";
    EXPECT_THAT(testing::read_file(dir / "log"), HasSubstr("asking for it twice"));
    std::size_t asked = 0;
    for (const ScriptedRequest& request : server_->requests())
      asked += is_part(request) && request.range_start() >= changed_at_ &&
               request.range_start() < changed_at_ + kSmallPart / 2;
    EXPECT_EQ(asked, 2U);
  }
}

TEST_F(HttpParts, TheBudgetBoundsWhatAllReadersHaveInFlight) {
  serve([&](const ScriptedRequest& request) -> ScriptedReply {
    return {http_serve(request, object_, kTag)};
  });
  HttpOptions narrow = options();
  narrow.ahead_bytes = 8 * kSmallPart;
  const UrlOpener opener({.http = narrow});
  std::vector<std::unique_ptr<ByteSource>> readers;
  std::byte byte{};
  for (int i = 0; i < 12; ++i) {
    readers.push_back(opener.open(server_->url("/a.tar")));
    ASSERT_EQ(readers.back()->read({&byte, 1}), 1U);
  }
  EXPECT_LE(server_->requests().size(), 12U + 8U);
  std::vector<std::jthread> threads;
  std::atomic<int> whole = 0;
  for (const auto& reader : readers)
    threads.emplace_back([&] { whole += read_all(*reader, 1 << 24).size() == object_.size() - 1; });
  threads.clear();
  EXPECT_EQ(whole, 12);
}

TEST_F(HttpParts, AWideGapIsSkippedByOneRequest) {
  const std::string object = some_bytes(24'000'000);
  serve([object](const ScriptedRequest& request) -> ScriptedReply {
    return {http_serve(request, object, kTag)};
  });
  const UrlOpener opener({.http = options()});
  const auto source = opener.open(server_->url("/a.tar"));
  std::vector<std::byte> buffer(1000);
  ASSERT_GT(source->read(buffer), 0U);
  EXPECT_FALSE(source->skip(1'000'000)) << "much of it is in flight";
  ASSERT_TRUE(source->skip(20'000'000));
  const std::uint64_t start = source->position();
  EXPECT_TRUE(read_all(*source, 1 << 24).text() == object.substr(start));
  EXPECT_EQ(requests_from(start), 1U);
}

TEST(HttpPartsOfNginx, ManyConnectionsOverTlsAndARestart) {
  if (const auto reason = testing::Nginx::missing()) GTEST_SKIP() << *reason;
  const std::string object = some_bytes(5'000'000);
  const testing::TempDir dir;
  testing::write_file(dir / "a.tar", object);
  for (const bool tls : {false, true}) {
    testing::Nginx nginx(dir.path(), {.tls = tls});
    const UrlOpener opener({.http = {.buffer_bytes = kSmallPart,
                                     .far_round_trip = {},
                                     .ca_file = tls ? nginx.ca_file() : ""}});
    const auto source = opener.open(nginx.url("a.tar"));
    std::vector<std::byte> head(1'000'000);
    std::size_t got = 0;
    while (got < head.size()) got += source->read(std::span(head).subspan(got));
    nginx.stop();
    nginx.start();
    EXPECT_TRUE(read_all(*source, 1 << 24).text() == std::string_view(object).substr(got));
  }
}

TEST(HttpPartsOfNginx, AReplacedFileIsAFault) {
  if (const auto reason = testing::Nginx::missing()) GTEST_SKIP() << *reason;
  const testing::TempDir dir;
  testing::write_file(dir / "a.tar", some_bytes(3'000'000));
  const testing::Nginx nginx(dir.path());
  const UrlOpener opener({.http = {.buffer_bytes = kSmallPart, .far_round_trip = {}}});
  const auto source = opener.open(nginx.url("a.tar"));
  std::vector<std::byte> head(1'000);
  ASSERT_GT(source->read(head), 0U);
  testing::write_file(dir / "b.tar", std::string(3'000'001, 'x'));
  std::filesystem::rename(dir / "b.tar", dir / "a.tar");
  try {
    read_all(*source, 1 << 24);
    FAIL() << "two versions were mixed";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("changed"));
  }
}

TEST(PartBudget, GivesEachReaderItsShareAndKeepsSomeForSecondRequests) {
  detail::PartBudget budget(16 * 100, 100);
  budget.join();
  budget.join();
  std::vector<detail::PartBudget::Held> held;
  while (budget.has_room(held.size())) held.push_back(budget.take());
  EXPECT_EQ(held.size(), 7U) << "half of 14";
  std::vector<detail::PartBudget::Held> other;
  while (budget.has_room(other.size())) other.push_back(budget.take());
  EXPECT_EQ(other.size(), 7U);
  EXPECT_TRUE(budget.take());
  held.clear();
  budget.leave();
  while (budget.has_room(other.size())) other.push_back(budget.take());
  EXPECT_EQ(other.size(), 14U);
  while (auto last = budget.take()) held.push_back(std::move(last));
  EXPECT_EQ(held.size(), 2U);
}

TEST(HttpServers, APartIsSlowAtThreeTimesWhatMostTake) {
  using std::chrono::seconds;
  detail::HttpServers servers;
  for (int i = 0; i < 19; ++i) servers.took("http://a/1", {seconds(1), seconds(2)});
  EXPECT_FALSE(servers.slow_after("http://a/2"));
  servers.took("http://a/1", {seconds(50), seconds(50)});
  EXPECT_FALSE(servers.slow_after("http://b/1"));
  for (int i = 0; i < 20; ++i) servers.took("http://a/1", {seconds(1), seconds(2)});
  const auto slow = servers.slow_after("http://a/2");
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->head, seconds(3));
  EXPECT_EQ(slow->whole, seconds(6));
  for (int i = 0; i < 64; ++i) servers.took("http://a/1", {});
  EXPECT_GE(servers.slow_after("http://a/1")->whole, std::chrono::milliseconds(500));
}

TEST(HttpServers, TheLeastRoundTripCounts) {
  using std::chrono::milliseconds;
  detail::HttpServers servers;
  EXPECT_EQ(servers.round_trip("http://a/1"), Clock::Duration::zero());
  for (const int ms : {60, 50, 200}) servers.measured("http://a/1", milliseconds(ms));
  EXPECT_EQ(servers.round_trip("http://a/2"), milliseconds(50));
  EXPECT_EQ(servers.round_trip("http://a:81/1"), Clock::Duration::zero());
}

}  // namespace
}  // namespace millrace::io
