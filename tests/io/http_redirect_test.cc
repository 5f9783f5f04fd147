// Redirects are followed by our code, and headers for one host are not sent to another.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/base/error.h"
#include "io/opener.h"
#include "tests/support/nginx.h"
#include "tests/support/scripted_http_server.h"
#include "tests/support/temp_dir.h"

namespace millrace::io {
namespace {

using ::testing::HasSubstr;
using testing::http_reply;
using testing::http_serve;
using testing::Nginx;
using testing::ScriptedHttpServer;
using testing::ScriptedReply;
using testing::ScriptedRequest;

const HttpOptions kWithSecrets{
    .headers = {{"Authorization", "Bearer secret"}, {"X-Amz-Security-Token", "secret"}}};

std::string location(const std::string& target) { return "Location: " + target + "\r\n"; }

std::string redirect_fault_of(const UrlOpener& opener, const std::string& url) {
  try {
    read_object(opener, url, 1000);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(HttpRedirect, SameHostKeepsOurHeaders) {
  const ScriptedHttpServer server([](const ScriptedRequest& request) -> ScriptedReply {
    if (request.target == "/a/x") return {http_reply(302, location("../b"), "moved")};
    return {http_serve(request, "hello")};
  });
  const UrlOpener opener({.http = kWithSecrets});
  EXPECT_EQ(read_object(opener, server.url("/a/x"), 100).text(), "hello");
  ASSERT_EQ(server.requests().size(), 2U);
  EXPECT_EQ(server.requests()[1].target, "/b");
  EXPECT_EQ(server.requests()[1].header("authorization"), "Bearer secret");
}

TEST(HttpRedirect, AnotherPortGetsNoneOfThemAndKeepsTheRange) {
  const ScriptedHttpServer other([](const ScriptedRequest& request) -> ScriptedReply {
    return {http_serve(request, "hello")};
  });
  const ScriptedHttpServer server([&](const ScriptedRequest&) -> ScriptedReply {
    return {http_reply(307, location(other.url("/b")), "")};
  });
  const UrlOpener opener({.http = kWithSecrets});
  const std::string url = server.url("/a").replace(0, 7, "http://user:password@");
  const auto source = opener.open(url, {.offset = 2});
  EXPECT_EQ(read_all(*source, 100).text(), "llo");
  EXPECT_NE(server.requests()[0].header("authorization"), "");
  EXPECT_EQ(other.requests()[0].header("authorization"), "");
  EXPECT_EQ(other.requests()[0].header("x-amz-security-token"), "");
  EXPECT_EQ(other.requests()[0].header("range"), "bytes=2-");
}

TEST(HttpRedirect, AnotherHostCannotRedirectThemBack) {
  std::string home;
  const ScriptedHttpServer other([&](const ScriptedRequest&) -> ScriptedReply {
    return {http_reply(302, location(home + "private"), "")};
  });
  const ScriptedHttpServer server([&](const ScriptedRequest& request) -> ScriptedReply {
    if (request.target == "/a") return {http_reply(302, location(other.url("/")), "")};
    return {http_serve(request, "hello")};
  });
  home = server.url("/");
  read_object(UrlOpener({.http = kWithSecrets}), server.url("/a"), 100);
  EXPECT_EQ(server.requests()[1].target, "/private");
  EXPECT_EQ(server.requests()[1].header("authorization"), "");
}

TEST(HttpRedirect, FiveAreFollowedAndNoMore) {
  const ScriptedHttpServer server([](const ScriptedRequest& request) -> ScriptedReply {
    if (request.target == "/0") return {http_serve(request, "hello")};
    const int left = std::stoi(request.target.substr(1)) - 1;
    return {http_reply(301, location("/" + std::to_string(left)), "")};
  });
  const UrlOpener opener;
  EXPECT_EQ(read_object(opener, server.url("/5"), 100).text(), "hello");
  EXPECT_THAT(redirect_fault_of(opener, server.url("/6")), HasSubstr("more than 5 redirects"));
}

TEST(HttpRedirect, OnlyHttpIsFollowed) {
  for (const std::string target : {"file:///etc/passwd", "ftp://127.0.0.1/a", "gopher://x/"}) {
    const ScriptedHttpServer server([&](const ScriptedRequest&) -> ScriptedReply {
      return {http_reply(302, location(target), "")};
    });
    EXPECT_THAT(redirect_fault_of(UrlOpener(), server.url()), HasSubstr("not http"));
  }
}

TEST(HttpRedirect, NeverFromHttpsDownToHttp) {
  if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
  const testing::TempDir dir;
  testing::write_file(dir / "a", "hello");
  const Nginx plain(dir.path());
  const Nginx secure(
      dir.path(),
      {.server_lines = "location /down { return 302 " + plain.url("a") + "; }", .tls = true});
  const UrlOpener opener({.http = {.ca_file = secure.ca_file()}});
  EXPECT_EQ(read_object(opener, secure.url("a"), 100).text(), "hello");
  EXPECT_THAT(redirect_fault_of(opener, secure.url("down")), HasSubstr("from https to http"));
}

TEST(HttpRedirect, AResumeStartsFromTheFirstUrl) {
  // A redirect's target may be signed for a short time only.
  const ScriptedHttpServer server([](const ScriptedRequest& request) -> ScriptedReply {
    if (request.target == "/a") return {http_reply(302, location("/b"), "")};
    const std::string whole = http_serve(request, "0123456789");
    if (request.number < 2) return {whole.substr(0, whole.size() - 5), testing::After::kClose};
    return {whole};
  });
  EXPECT_EQ(read_object(UrlOpener(), server.url("/a"), 100).text(), "0123456789");
  ASSERT_EQ(server.requests().size(), 4U);
  EXPECT_EQ(server.requests()[2].target, "/a");
}

}  // namespace
}  // namespace millrace::io
