// The required outcome of each network fault: the same bytes, or an error that names it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "io/base/error.h"
#include "io/opener.h"
#include "tests/support/fake_clock.h"
#include "tests/support/scripted_http_server.h"
#include "tests/support/some_bytes.h"
#include "tests/support/temp_dir.h"

namespace millrace::io {
namespace {

using std::chrono::milliseconds;
using testing::After;
using testing::FakeClock;
using ::testing::HasSubstr;
using testing::http_reply;
using testing::http_serve;
using ::testing::Not;
using testing::ScriptedHttpServer;
using testing::ScriptedReply;
using testing::ScriptedRequest;
using testing::some_bytes;

constexpr std::string_view kFaultTag = "ETag: \"v1\"\r\n";

// The reply of a server that dies after `bytes` bytes of the body.
std::string cut(const std::string& reply, std::size_t bytes) {
  return reply.substr(0, reply.find("\r\n\r\n") + 4 + bytes);
}

class HttpFaults : public ::testing::Test {
 protected:
  void serve(ScriptedHttpServer::Script script) {
    server_ = std::make_unique<ScriptedHttpServer>(std::move(script));
  }
  HttpOptions options() {
    HttpOptions options;
    options.clock = &clock_;
    return options;
  }
  std::string read(const std::string& target = "/a.tar", std::uint64_t offset = 0) {
    return read_with(options(), target, offset);
  }
  std::string read_with(const HttpOptions& http, const std::string& target = "/a.tar",
                        std::uint64_t offset = 0) {
    const UrlOpener opener({.http = http});
    const auto source = opener.open(server_->url(target), {.offset = offset});
    return std::string(read_all(*source, 1 << 24).text());
  }
  Error fault_of(const HttpOptions& http, const std::string& target = "/a.tar") {
    try {
      const std::string got = read_with(http, target);
      ADD_FAILURE() << "no fault, but " << got.size() << " bytes";
    } catch (const Error& error) {
      return error;
    }
    return {ErrorCode::kIo, "none"};
  }
  Error fault() { return fault_of(options()); }
  std::size_t requests() const { return server_->requests().size(); }
  Clock::Duration slept() const {
    const auto sleeps = clock_.sleeps();
    return std::accumulate(sleeps.begin(), sleeps.end(), Clock::Duration{});
  }

  FakeClock clock_;
  std::unique_ptr<ScriptedHttpServer> server_;
};

TEST_F(HttpFaults, AShortBodyIsResumedWhereItBroke) {
  const std::string object = some_bytes(200'000);
  for (const After after : {After::kClose, After::kReset}) {
    serve([&](const ScriptedRequest& request) -> ScriptedReply {
      const std::string whole = http_serve(request, object, kFaultTag);
      if (request.number < 3) return {cut(whole, 30'000), after};
      return {whole};
    });
    EXPECT_TRUE(read() == object);
    ASSERT_EQ(requests(), 4U);
    const ScriptedRequest last = server_->requests().back();
    EXPECT_EQ(last.header("if-match"), "\"v1\"");
    // A reset may lose bytes in flight, but none arrives twice.
    EXPECT_GT(last.range_start(), 0U);
    EXPECT_LE(last.range_start(), 90'000U);
  }
}

TEST_F(HttpFaults, AShortBodyWithoutContentLengthIsResumedToo) {
  const std::string object = some_bytes(200'000);
  serve([&](const ScriptedRequest& request) -> ScriptedReply {
    std::string whole = http_serve(request, object);
    const std::size_t length = whole.find("Content-Length");
    whole.erase(length, whole.find("\r\n", length) + 2 - length);
    return {request.number == 0 ? cut(whole, 1000) : whole, After::kClose};
  });
  EXPECT_TRUE(read() == object);
  EXPECT_EQ(server_->requests().back().range_start(), 1000U);
}

TEST_F(HttpFaults, ACutChunkedBodyIsResumed) {
  const std::string object = "0123456789";
  serve([&](const ScriptedRequest& request) -> ScriptedReply {
    if (request.number > 0) return {http_serve(request, object)};
    return {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n0123\r\n", After::kClose};
  });
  EXPECT_EQ(read(), object);
}

TEST_F(HttpFaults, AServerThatIgnoresRangeGivesNoByteTwice) {
  const std::string object = some_bytes(200'000);
  serve([&](const ScriptedRequest& request) -> ScriptedReply {
    const std::string whole = http_reply(200, kFaultTag, object);
    if (request.number == 0) return {cut(whole, 150'000), After::kClose};
    return {whole};
  });
  EXPECT_TRUE(read() == object);
  EXPECT_TRUE(read("/a.tar", 70'000) == object.substr(70'000));
}

TEST_F(HttpFaults, ARangeThatWasNotAskedForIsNotTaken) {
  const std::string object = some_bytes(1000);
  for (const std::string wrong : {"bytes 0-999/1000", "bytes 101-999/1000", "bytes 9-1/1000",
                                  "bytes 100-999", "items 100-999/1000", ""}) {
    serve([&](const ScriptedRequest& request) -> ScriptedReply {
      if (request.header("range").empty()) return {http_reply(200, "", object)};
      return {http_reply(206, "Content-Range: " + wrong + "\r\n", object.substr(100))};
    });
    EXPECT_TRUE(read("/a.tar", 100) == object.substr(100)) << wrong;
    EXPECT_EQ(server_->requests().back().header("range"), "") << "asked again, without a Range";
  }
}

TEST_F(HttpFaults, ASliceShorterThanAskedForIsFollowedByTheNext) {
  const std::string object = some_bytes(1000);
  for (const std::string total : {"1000", "*"}) {
    serve([&](const ScriptedRequest& request) -> ScriptedReply {
      const std::size_t from = request.range_start();
      if (from >= 1000) return {http_reply(416, "", "")};
      const std::size_t last = std::min<std::size_t>(from + 299, 999);
      return {http_reply(206,
                         "Content-Range: bytes " + std::to_string(from) + "-" +
                             std::to_string(last) + "/" + total + "\r\n",
                         object.substr(from, last - from + 1))};
    });
    EXPECT_TRUE(read() == object) << total;
    EXPECT_TRUE(clock_.sleeps().empty());
  }
}

TEST_F(HttpFaults, AnObjectThatChangesMidwayIsAFault) {
  const std::string object = some_bytes(200'000);
  // By status, by ETag, by date and by size only.
  const std::vector<std::pair<std::string, std::string>> versions{
      {"ETag: \"v1\"\r\n", ""},
      {"ETag: \"v1\"\r\n", "ETag: \"v2\"\r\n"},
      {"Last-Modified: Sat, 01 Jan 2022 00:00:00 GMT\r\n",
       "Last-Modified: Sat, 01 Jan 2022 00:00:01 GMT\r\n"},
      {"X: 1\r\n", "X: 2\r\n"},
      // Another version's answer may lack what the first one was known by.
      {"ETag: \"v1\"\r\n", "X: 2\r\n"},
      {"ETag: \"v1\"\r\n", "ETag: W/\"v1\"\r\n"},
      {"ETag: W/\"v1\"\r\n", "ETag: W/\"v2\"\r\n"},
      {"ETag: W/\"v1\"\r\n", "X: 2\r\n"},
      {"Last-Modified: Sat, 01 Jan 2022 00:00:00 GMT\r\n", "X: 2\r\n"}};
  for (const auto& [before, after] : versions) {
    serve([&, before = before, after = after](const ScriptedRequest& request) -> ScriptedReply {
      if (request.number == 0)
        return {cut(http_serve(request, object, before), 1000), After::kClose};
      if (after.empty()) return {http_reply(412, "", "")};
      return {http_serve(request, object + (before == "X: 1\r\n" ? "more" : ""), after)};
    });
    const Error error = fault();
    EXPECT_EQ(error.code(), ErrorCode::kIo) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("changed"));
    EXPECT_EQ(error.where().offset, 1000U);
  }
}

TEST_F(HttpFaults, AChangeBeforeTheFirstByteStartsAgain) {
  const std::string object = some_bytes(200'000);
  serve([&](const ScriptedRequest& request) -> ScriptedReply {
    if (request.number == 0) return {cut(http_serve(request, "old", kFaultTag), 0), After::kClose};
    if (request.header("if-match") == "\"v1\"") return {http_reply(412, "", "")};
    return {http_serve(request, object, "ETag: \"v2\"\r\n")};
  });
  EXPECT_TRUE(read() == object);
}

TEST_F(HttpFaults, TryingEndsWhenThePatienceIsUsedUp) {
  serve([&](const ScriptedRequest&) -> ScriptedReply { return {"", After::kReset}; });
  const Error error = fault();
  EXPECT_EQ(error.code(), ErrorCode::kIo);
  EXPECT_THAT(error.what(), HasSubstr("tries in a row"));
  const auto sleeps = clock_.sleeps();
  EXPECT_EQ(requests(), sleeps.size() + 1);
  for (std::size_t i = 0; i < sleeps.size(); ++i) {
    EXPECT_LE(sleeps[i], std::min(milliseconds(500) * (1 << std::min<std::size_t>(i, 6)),
                                  milliseconds(20'000)))
        << i;
  }
  EXPECT_EQ(slept(), milliseconds(60'000)) << "the last try comes when the patience ends";
}

TEST_F(HttpFaults, WithoutPatienceTheFirstFaultIsFinal) {
  serve([&](const ScriptedRequest&) -> ScriptedReply { return {"", After::kReset}; });
  HttpOptions impatient = options();
  impatient.retry.patience = milliseconds(0);
  EXPECT_EQ(fault_of(impatient).code(), ErrorCode::kIo);
  EXPECT_EQ(requests(), 1U);
}

TEST_F(HttpFaults, AServerThatNeverAnswersIsGivenUpWithinThePatience) {
  serve([&](const ScriptedRequest&) -> ScriptedReply { return {"", After::kHang}; });
  // The limit for the first byte is 30 s.
  const Error error = fault_of({.retry = {.patience = milliseconds(1500)}});
  EXPECT_THAT(error.what(), HasSubstr("no answer in time"));
  EXPECT_LE(requests(), 3U);
}

TEST_F(HttpFaults, AServerThatAsksForTooMuchPatienceIsTriedOnceMore) {
  serve([&](const ScriptedRequest&) -> ScriptedReply {
    return {http_reply(503, "Retry-After: 100\r\n", "")};
  });
  EXPECT_THAT(fault().what(), HasSubstr("503"));
  EXPECT_EQ(requests(), 2U);
  EXPECT_GE(slept(), milliseconds(59'000));
  EXPECT_LE(slept(), milliseconds(60'000)) << "the user's bound is the bound";
}

TEST_F(HttpFaults, ANameThatDoesNotResolveIsGivenUpWithinFourSeconds) {
  const UrlOpener opener({.http = options()});
  const auto source = opener.open("http://no-such-host.invalid/a.tar?token=secret");
  try {
    std::byte byte{};
    source->read({&byte, 1});
    FAIL() << "that name resolves";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_THAT(error.what(), HasSubstr("no-such-host.invalid"));
    EXPECT_THAT(error.what(), Not(HasSubstr("secret")));
  }
  EXPECT_LE(slept(), milliseconds(4000));
}

TEST_F(HttpFaults, ARetryIsLoggedOnceWithItsReasonAndWithoutSecrets) {
  serve([&](const ScriptedRequest& request) -> ScriptedReply {
    if (request.number < 5) return {http_reply(503, "", "")};
    return {http_serve(request, "hello")};
  });
  const testing::TempDir dir;
  HttpOptions told = options();
  told.log = Log::to_file(dir / "log");
  EXPECT_EQ(read_with(told, "/a.tar?token=secret"), "hello");
  EXPECT_EQ(testing::read_file(dir / "log"),
            "warning: " + server_->url("/a.tar") +
                ": the server answered with status 503; trying again, for up to 60 s\n");
}

TEST_F(HttpFaults, ALongWaitIsLogged) {
  serve([&](const ScriptedRequest&) -> ScriptedReply { return {"", After::kHang}; });
  const testing::TempDir dir;
  HttpOptions told = options();
  told.log = Log::to_file(dir / "log");
  std::stop_source stop;
  const UrlOpener opener({.http = told});
  const auto source = opener.open(server_->url("/a.tar?token=secret"), {.stop = stop.get_token()});
  std::jthread reader([&] {
    std::byte byte{};
    EXPECT_THROW(source->read({&byte, 1}), Error);
  });
  while (testing::read_file(dir / "log").empty()) std::this_thread::sleep_for(milliseconds(20));
  stop.request_stop();
  EXPECT_EQ(testing::read_file(dir / "log"),
            "waiting for " + server_->url("/a.tar") + ": no answer yet for 2 s\n");
}

TEST_F(HttpFaults, EachNewByteGivesNewTries) {
  const std::string object = some_bytes(40);
  serve([&](const ScriptedRequest& request) -> ScriptedReply {
    return {cut(http_serve(request, object), 1), After::kClose};
  });
  EXPECT_EQ(read(), object);
  EXPECT_EQ(requests(), 40U);
}

TEST_F(HttpFaults, TroubleThatMayPassIsTriedAgain) {
  for (const int status : {408, 429, 500, 502, 503, 504}) {
    serve([&](const ScriptedRequest& request) -> ScriptedReply {
      if (request.number < 2) return {http_reply(status, "", "busy")};
      return {http_serve(request, "hello")};
    });
    EXPECT_EQ(read(), "hello") << status;
  }
}

TEST_F(HttpFaults, ARefusalIsNotTriedAgain) {
  for (const int status : {400, 401, 403, 404, 410, 501}) {
    serve([&](const ScriptedRequest&) -> ScriptedReply { return {http_reply(status, "", "no")}; });
    const Error error = fault_of(options(), "/a.tar?token=secret");
    const auto code = status == 401 || status == 403   ? ErrorCode::kPermissionDenied
                      : status == 404 || status == 410 ? ErrorCode::kNotFound
                                                       : ErrorCode::kIo;
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(std::to_string(status)));
    EXPECT_THAT(error.what(), Not(HasSubstr("secret")));
    EXPECT_EQ(error.where().url, server_->url("/a.tar"));
    EXPECT_EQ(requests(), 1U);
  }
}

TEST_F(HttpFaults, RetryAfterIsHonouredInSecondsAndAsADate) {
  const std::vector<std::string> sevens{
      "Retry-After: 7\r\n",
      "Date: Sat, 01 Jan 2022 00:00:00 GMT\r\nRetry-After: Sat, 01 Jan 2022 00:00:07 GMT\r\n"};
  for (const std::string& seven : sevens) {
    serve([&](const ScriptedRequest& request) -> ScriptedReply {
      if (request.number == 0) return {http_reply(503, seven, "")};
      return {http_serve(request, "hello")};
    });
    EXPECT_EQ(read(), "hello");
    EXPECT_GE(clock_.sleeps().back(), milliseconds(7000));
    EXPECT_LE(clock_.sleeps().back(), milliseconds(7500));
  }
}

TEST_F(HttpFaults, RetryAfterHasACeilingAndIsWithinThePatience) {
  serve([&](const ScriptedRequest& request) -> ScriptedReply {
    if (request.number == 0) return {http_reply(429, "Retry-After: 99999999999\r\n", "")};
    return {http_serve(request, "hello")};
  });
  EXPECT_EQ(read(), "hello");
  EXPECT_LE(clock_.sleeps().back(), milliseconds(60'000));
  HttpOptions patient = options();
  patient.retry.patience = std::chrono::hours(12);
  serve([&](const ScriptedRequest& request) -> ScriptedReply {
    if (request.number == 0) return {http_reply(429, "Retry-After: 99999999999\r\n", "")};
    return {http_serve(request, "hello")};
  });
  const UrlOpener opener({.http = patient});
  EXPECT_EQ(read_all(*opener.open(server_->url("/a.tar")), 100).text(), "hello");
  EXPECT_GE(clock_.sleeps().back(), milliseconds(300'000));
  EXPECT_LE(clock_.sleeps().back(), milliseconds(300'500));
}

TEST_F(HttpFaults, AnEmptyObjectIsNoFaultOfARange) {
  serve([&](const ScriptedRequest& request) -> ScriptedReply {
    return {request.header("range").empty() ? http_reply(200, "", "") : http_reply(416, "", "no")};
  });
  EXPECT_EQ(read(), "");
  EXPECT_EQ(requests(), 2U);
  EXPECT_TRUE(clock_.sleeps().empty());
}

TEST_F(HttpFaults, AProxyIsNamedAndItsPasswordIsNot) {
  serve([&](const ScriptedRequest& request) -> ScriptedReply {
    return {http_serve(request, "hello")};
  });
  for (const char* proxy : {"socks9://us:secretpw@127.0.0.1:1", "http://us:secretpw@127.0.0.1:x",
                            "http://us:secretpw@127.0.0.1:1"}) {
    ::setenv("http_proxy", proxy, 1);
    const Error error = fault();
    ::unsetenv("http_proxy");
    EXPECT_THAT(error.what(), HasSubstr("proxy")) << proxy;
    EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("secretpw")));
    EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("us:")));
  }
}

// Nothing tells that the two halves are of different objects.
TEST_F(HttpFaults, AServerWithoutVersionsIsNamedOnceWhenAnObjectIsResumed) {
  const testing::TempDir dir;
  HttpOptions logged = options();
  logged.log = Log::to_file(dir / "log");
  const std::string object = some_bytes(200'000);
  for (const std::string fields : {"", "ETag: W/\"1\"\r\n", "ETag: \"1\"\r\n",
                                   "Last-Modified: Sat, 01 Jan 2022 00:00:00 GMT\r\n"}) {
    testing::write_file(dir / "log", "");
    serve([&](const ScriptedRequest& request) -> ScriptedReply {
      const std::string whole = http_serve(request, object, fields);
      if (request.number % 3 < 2) return {cut(whole, 30'000), After::kClose};
      return {whole};
    });
    const UrlOpener opener({.http = logged});
    for (const char* name : {"/a.tar", "/b.tar"})
      EXPECT_TRUE(read_all(*opener.open(server_->url(name)), 1 << 24).text() == object);
    const std::string text = testing::read_file(dir / "log");
    const bool knows = !fields.empty() && fields.find("W/") == std::string::npos;
    EXPECT_EQ(text.find("neither a strong ETag") == std::string::npos, knows) << text;
    EXPECT_EQ(text.find("neither a strong ETag"), text.rfind("neither a strong ETag")) << text;
  }
}

TEST_F(HttpFaults, AnEncodedBodyIsRefusedAndNeverDecoded) {
  serve([&](const ScriptedRequest& request) -> ScriptedReply {
    EXPECT_EQ(request.header("accept-encoding"), "identity");
    return {http_reply(200, "Content-Encoding: gzip\r\n", "xxx")};
  });
  const Error error = fault();
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(error.what(), HasSubstr("gzip"));
}

TEST_F(HttpFaults, AStalledBodyIsBrokenOffAndResumed) {
  const std::string object = some_bytes(200'000);
  serve([&](const ScriptedRequest& request) -> ScriptedReply {
    const std::string whole = http_serve(request, object, kFaultTag);
    if (request.number == 0) return {cut(whole, 50'000), After::kHang};
    return {whole};
  });
  HttpOptions brisk = options();
  brisk.stall_timeout = std::chrono::seconds(1);
  EXPECT_TRUE(read_with(brisk) == object);
  EXPECT_EQ(server_->requests().back().range_start(), 50'000U);
}

TEST_F(HttpFaults, ATrickleIsBrokenOffAndResumed) {
  const std::string object = some_bytes(200'000);
  serve([&](const ScriptedRequest& request) -> ScriptedReply {
    const std::string whole = http_serve(request, object, kFaultTag);
    if (request.number > 0) return {whole};
    return {whole, After::kHang, 200, milliseconds(250)};  // 800 bytes per second
  });
  HttpOptions brisk = options();
  brisk.stall_timeout = std::chrono::seconds(2);
  EXPECT_TRUE(read_with(brisk) == object);
  EXPECT_EQ(requests(), 2U);
  EXPECT_GT(server_->requests().back().range_start(), 0U);
}

TEST_F(HttpFaults, ATrickleThatNeverGetsBetterUsesUpThePatience) {
  const std::string object = some_bytes(200'000);
  serve([&](const ScriptedRequest& request) -> ScriptedReply {
    return {http_serve(request, object, kFaultTag), After::kHang, 150, milliseconds(100)};
  });
  HttpOptions brisk = options();
  brisk.stall_timeout = milliseconds(400);
  brisk.stall_bytes_per_s = 4096;
  brisk.retry.patience = milliseconds(2000);
  const Error error = fault_of(brisk);
  EXPECT_THAT(error.what(), HasSubstr("the transfer stalled"));
  EXPECT_EQ(slept(), milliseconds(2000));
}

TEST_F(HttpFaults, NoAnswerInTimeIsTriedAgain) {
  serve([&](const ScriptedRequest& request) -> ScriptedReply {
    if (request.number == 0) return {"", After::kHang};
    return {http_serve(request, "hello")};
  });
  HttpOptions brisk = options();
  brisk.first_byte_timeout = milliseconds(200);
  EXPECT_EQ(read_with(brisk), "hello");
}

// Counts how often it was asked.
class CountedClock final : public Clock {
 public:
  TimePoint now() const override {
    ++asked_;
    return clock_.now();
  }
  bool sleep_for(Duration duration, const std::stop_token& stop) const override {
    return clock_.sleep_for(duration, stop);
  }
  void advance(Duration duration) { clock_.advance(duration); }
  void wait_until_asked(int times) const {
    for (const int until = asked_ + times; asked_ < until;)
      std::this_thread::sleep_for(milliseconds(1));
  }

 private:
  FakeClock clock_;
  mutable std::atomic<int> asked_ = 0;
};

TEST_F(HttpFaults, AReaderThatPausesIsNotAStall) {
  const std::string object = some_bytes(3'000'000);
  CountedClock clock;
  serve([&](const ScriptedRequest& request) -> ScriptedReply {
    return {http_serve(request, object)};
  });
  HttpOptions small = options();
  small.buffer_bytes = 100'000;
  small.stall_timeout = std::chrono::seconds(1);
  small.transfer_clock = &clock;
  const UrlOpener opener({.http = small});
  const auto source = opener.open(server_->url());
  std::byte first[1000];
  ASSERT_EQ(source->read(first), 1000U);
  for (int second = 0; second < 3; ++second) {
    clock.wait_until_asked(2);
    clock.advance(std::chrono::seconds(1));
  }
  clock.wait_until_asked(2);
  EXPECT_TRUE(read_all(*source, 1 << 24).text() == std::string_view(object).substr(1000));
  EXPECT_EQ(requests(), 1U);
}

TEST_F(HttpFaults, AStopEndsAWaitingRead) {
  serve([&](const ScriptedRequest& request) -> ScriptedReply {
    return {cut(http_serve(request, "0123456789"), 4), After::kHang};
  });
  std::stop_source stop;
  // The stop has to end the read: at the end of a stall the token is checked too.
  HttpOptions patient = options();
  patient.stall_timeout = std::chrono::seconds(3600);
  const UrlOpener opener({.http = patient});
  const auto source = opener.open(server_->url(), {.stop = stop.get_token()});
  std::byte buffer[16];
  ASSERT_EQ(source->read(buffer), 4U);
  std::jthread stopper([&] {
    std::this_thread::sleep_for(milliseconds(50));
    stop.request_stop();
  });
  try {
    source->read(buffer);
    FAIL() << "the read was not stopped";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCancelled);
  }
}

TEST_F(HttpFaults, TheOpenersStopEndsTheWaitForAnAnswer) {
  serve([&](const ScriptedRequest&) -> ScriptedReply { return {"", After::kHang}; });
  std::stop_source stop;
  const UrlOpener opener({.stop = stop.get_token()});
  const auto source = opener.open(server_->url());
  std::jthread stopper([&] {
    std::this_thread::sleep_for(milliseconds(50));
    stop.request_stop();
  });
  try {
    std::byte buffer[16];
    source->read(buffer);
    FAIL() << "the read was not stopped";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCancelled);
  }
}

TEST_F(HttpFaults, AStopEndsTheWaitBeforeARetry) {
  serve([&](const ScriptedRequest&) -> ScriptedReply {
    return {http_reply(503, "Retry-After: 100\r\n", "")};
  });
  std::stop_source stop;
  const UrlOpener opener;  // the real clock
  const auto source = opener.open(server_->url(), {.stop = stop.get_token()});
  std::jthread stopper([&] {
    std::this_thread::sleep_for(milliseconds(50));
    stop.request_stop();
  });
  std::byte buffer[16];
  EXPECT_THROW(source->read(buffer), Error);
}

TEST_F(HttpFaults, ManyReadersShareOneBudgetOfRetries) {
  // Four tokens, refilled at one per second: the eighth retry waits at least four seconds.
  serve([&](const ScriptedRequest& request) -> ScriptedReply {
    if (request.number < 8) return {http_reply(503, "", "")};
    return {http_serve(request, "hello")};
  });
  HttpOptions scarce = options();
  scarce.retry = {.first_backoff = milliseconds(1), .max_backoff = milliseconds(1)};
  scarce.retry.burst = 4;
  scarce.retry.per_second = 1;
  EXPECT_EQ(read_with(scarce), "hello");
  EXPECT_GE(slept(), milliseconds(3990));
  EXPECT_LE(slept(), milliseconds(8010));
}

}  // namespace
}  // namespace millrace::io
