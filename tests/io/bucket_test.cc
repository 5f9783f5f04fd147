// Buckets as folders: listed and written, against real server programs and against one that does
// what those never do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "io/opener.h"
#include "tests/support/bucket_server.h"
#include "tests/support/code_of.h"
#include "tests/support/fake_clock.h"
#include "tests/support/scripted_http_server.h"
#include "tests/support/some_bytes.h"

namespace millrace::io {
namespace {

using testing::After;
using testing::BucketServer;
using testing::code_of;
using ::testing::ElementsAre;
using testing::FakeClock;
using ::testing::HasSubstr;
using testing::http_reply;
using testing::http_serve;
using testing::ScriptedHttpServer;
using testing::ScriptedReply;
using testing::ScriptedRequest;
using testing::some_bytes;

constexpr std::size_t kPart = std::size_t{16} << 20;

void write_object(const Opener& opener, const std::string& url, std::string_view content,
                  Replace replace = Replace::kNever) {
  const auto sink = opener.open_sink(url, {.replace = replace});
  // Pieces that do not divide a part.
  for (std::size_t at = 0; at < content.size(); at += 999'983)
    sink->write(std::as_bytes(std::span(content.substr(at, 999'983))));
  sink->finish();
}

std::vector<std::string> names(const std::vector<ListedObject>& listed) {
  std::vector<std::string> urls;
  for (const ListedObject& object : listed) urls.push_back(object.url);
  return urls;
}

class Bucket : public ::testing::TestWithParam<BucketServer::Kind> {};

TEST_P(Bucket, IsWrittenListedAndReadAsAFolderIs) {
  if (const auto reason = BucketServer::missing(GetParam())) GTEST_SKIP() << *reason;
  const BucketServer server(GetParam());
  const UrlOpener opener({.object_stores = server.options()});
  const std::string big = some_bytes(2 * kPart + 12'345);
  write_object(opener, server.url("d/big.tar"), big);
  write_object(opener, server.url("d/a b+c.tar"), "small");
  write_object(opener, server.url("d/e/x.tar"), "below");
  write_object(opener, server.url("d/empty"), "");
  { opener.open_sink(server.url("dropped"))->write(std::as_bytes(std::span(big))); }

  EXPECT_TRUE(read_object(opener, server.url("d/big.tar"), big.size()).text() == big);
  const auto tail = opener.open(server.url("d/big.tar"), {.offset = 2 * kPart});
  EXPECT_TRUE(read_all(*tail, big.size()).text() == std::string_view(big).substr(2 * kPart));
  EXPECT_EQ(read_object(opener, server.url("d/a b+c.tar"), 9).text(), "small");

  EXPECT_TRUE(opener.can_list(server.url()));
  const auto listed = opener.list(server.url("d/"));
  EXPECT_THAT(names(listed), ElementsAre(server.url("d/a b+c.tar"), server.url("d/big.tar"),
                                         server.url("d/e/"), server.url("d/empty")));
  EXPECT_EQ(listed[1].bytes, big.size());
  EXPECT_THAT(names(opener.list(server.url("d/e"), {.recursive = true})),
              ElementsAre(server.url("d/e/x.tar"), server.url("d/empty")));
  EXPECT_EQ(opener.list(server.url(), {.recursive = true}).size(), 4U)
      << "nothing was dropped there";
  EXPECT_EQ(opener.list(server.url("nothing/")).size(), 0U);
  EXPECT_EQ(code_of([&] { opener.list(server.url("d/"), {.most = 3}); }), ErrorCode::kExhausted);
}

TEST_P(Bucket, ReplacesAnObjectOnlyIfItMay) {
  if (const auto reason = BucketServer::missing(GetParam())) GTEST_SKIP() << *reason;
  const BucketServer server(GetParam());
  const UrlOpener opener({.object_stores = server.options()});
  write_object(opener, server.url("a"), "one");
  EXPECT_EQ(code_of([&] { opener.open_sink(server.url("a")); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(read_object(opener, server.url("a"), 9).text(), "one");
  write_object(opener, server.url("a"), "two", Replace::kAtomically);
  EXPECT_EQ(read_object(opener, server.url("a"), 9).text(), "two");
  opener.remove(server.url("a"));
  opener.remove(server.url("a"));
  EXPECT_EQ(code_of([&] { read_object(opener, server.url("a"), 9); }), ErrorCode::kNotFound);
}

INSTANTIATE_TEST_SUITE_P(Real, Bucket,
                         ::testing::Values(BucketServer::Kind::kS3, BucketServer::Kind::kGcs),
                         [](const auto& server) {
                           return server.param == BucketServer::Kind::kS3 ? "S3" : "Gcs";
                         });

ObjectStoreOptions s3_at(const ScriptedHttpServer& server) {
  return {.s3 = {.access_key_id = "K", .secret_access_key = "S", .endpoint = server.url("")}};
}

std::string page(const std::string& keys, const std::string& token) {
  std::string text = "<?xml version=\"1.0\"?><ListBucketResult><EncodingType>url</EncodingType>";
  for (const char key : keys)
    text.append("<Contents><Key>d/").append(1, key).append("%20+</Key><Size>7</Size></Contents>");
  text += token.empty() ? "<IsTruncated>false</IsTruncated>"
                        : "<IsTruncated>true</IsTruncated><NextContinuationToken>" + token +
                              "</NextContinuationToken>";
  return text + "</ListBucketResult>";
}

TEST(BucketListing, GoesThroughAllPages) {
  const ScriptedHttpServer server([](const ScriptedRequest& request) -> ScriptedReply {
    if (request.number == 0) return {http_reply(503, "", "<Error><Code>SlowDown</Code></Error>")};
    if (request.target.find("continuation-token=a%2F%3D") != std::string::npos)
      return {http_reply(200, "", page("A", ""))};
    return {http_reply(200, "", page("CB", "a/="))};
  });
  FakeClock clock;
  const UrlOpener opener({.http = {.clock = &clock}, .object_stores = s3_at(server)});
  EXPECT_THAT(names(opener.list("s3://b/d/")),
              ElementsAre("s3://b/d/A  ", "s3://b/d/B  ", "s3://b/d/C  "));
}

TEST(BucketListing, ThatIsCutShortIsAskedForAgainOrAFault) {
  const std::string whole = page("AB", "");
  int broken = 1;
  std::string reply;
  const ScriptedHttpServer server([&](const ScriptedRequest&) -> ScriptedReply {
    if (broken-- > 0) return {http_reply(200, "", whole.substr(0, whole.size() / 2))};
    return {http_reply(200, "", reply)};
  });
  const UrlOpener opener({.object_stores = s3_at(server)});
  reply = whole;
  EXPECT_EQ(opener.list("s3://b/d/").size(), 2U);
  broken = 1000;
  EXPECT_EQ(code_of([&] { opener.list("s3://b/d/"); }), ErrorCode::kCorrupt);
  broken = 0;
  for (const std::string& endless : {page("A", "same"),
                                     std::string("<ListBucketResult><IsTruncated>true</IsTruncated>"
                                                 "</ListBucketResult>"),
                                     std::string("<html/>")}) {
    reply = endless;
    EXPECT_EQ(code_of([&] { opener.list("s3://b/d/"); }), ErrorCode::kCorrupt) << endless;
  }
}

std::string hub_page(const ScriptedRequest& request) {
  std::string url = "http://";
  return url.append(request.header("host")).append(request.target).append("?cursor=2");
}

TEST(Hub, IsListedReadAndSendsItsTokenToTheHubOnly) {
  const ScriptedHttpServer files([](const ScriptedRequest& request) -> ScriptedReply {
    EXPECT_EQ(request.header("authorization"), "");
    return {http_serve(request, "hello")};
  });
  const ScriptedHttpServer hub([&](const ScriptedRequest& request) -> ScriptedReply {
    EXPECT_EQ(request.header("authorization"), "Bearer hf_secret");
    if (request.target == "/datasets/o/n/resolve/v1.0/d/a%20b.tar")
      return {http_reply(302, "Location: " + files.url("/blob") + "\r\n", "")};
    if (request.target == "/api/datasets/o/n/tree/v1.0/d")
      return {http_reply(200, "Link: <" + hub_page(request) + ">; rel=\"next\"\r\n",
                         R"([{"type": "file", "path": "d/b.tar", "size": 7},
                             {"type": "directory", "path": "d/e", "size": 0}])")};
    EXPECT_EQ(request.target, "/api/datasets/o/n/tree/v1.0/d?cursor=2");
    return {http_reply(200, "", R"([{"type": "file", "path": "d/a b.tar", "size": 5}])")};
  });
  const UrlOpener opener(
      {.object_stores = {.hub = {.token = "hf_secret", .endpoint = hub.url("")}}});
  const std::string folder = "hf://datasets/o/n@v1.0/d/";
  EXPECT_THAT(names(opener.list(folder)),
              ElementsAre(folder + "a b.tar", folder + "b.tar", folder + "e/"));
  EXPECT_EQ(read_object(opener, folder + "a b.tar", 9).text(), "hello");
  EXPECT_EQ(code_of([&] { opener.open_sink(folder + "c.tar"); }), ErrorCode::kInvalidArgument);
}

// An S3 server as far as uploads go, which breaks what it is told to break.
struct UploadServer {
  std::map<std::string, std::string> parts;
  std::map<std::string, int> tries;
  std::string object;
  std::string own_number;
  int aborted = 0;
  bool exists = false;
  std::function<std::optional<ScriptedReply>(const ScriptedRequest&, const std::string& what)>
      fault;
  ScriptedHttpServer server{[this](const ScriptedRequest& r) { return answer(r); }};

  static std::string what(const ScriptedRequest& request) {
    const std::size_t part = request.target.find("partNumber=");
    if (part != std::string::npos) return "part " + request.target.substr(part + 11, 1);
    if (request.target.ends_with("?uploads=")) return "begin";
    if (request.method == "POST") return "complete";
    return request.method;
  }

  ScriptedReply answer(const ScriptedRequest& request) {
    const std::string step = what(request);
    ++tries[step];
    if (fault) {
      if (auto reply = fault(request, step)) return *reply;
    }
    if (step == "HEAD") {
      if (!exists) return {http_reply(404, "", "")};
      return {"HTTP/1.1 200 OK\r\nx-amz-meta-millrace-upload: " + own_number +
              "\r\nContent-Length: 0\r\n\r\n"};
    }
    if (step == "begin") {
      own_number = request.header("x-amz-meta-millrace-upload");
      return {http_reply(200, "",
                         "<InitiateMultipartUploadResult><UploadId>id/1</UploadId>"
                         "</InitiateMultipartUploadResult>")};
    }
    if (step.starts_with("part")) return take_part(step, request);
    if (step == "DELETE") ++aborted;
    if (step == "complete") put_together();
    return {http_reply(step == "DELETE" ? 204 : 200, "", "<Result/>")};
  }

  ScriptedReply take_part(const std::string& step, const ScriptedRequest& request) {
    Sha256 hash;
    hash.update(std::as_bytes(std::span(request.body)));
    if (hash.hex() != request.header("x-amz-content-sha256"))
      return {http_reply(400, "", "<Error><Code>XAmzContentSHA256Mismatch</Code></Error>")};
    parts[step] = request.body;
    return {http_reply(200, "ETag: \"" + step + "\"\r\n", "")};
  }

  void put_together() {
    object.clear();
    for (const auto& [name, content] : parts) object += content;
    exists = true;
  }
};

TEST(S3Upload, APartThatFailsThreeTimesIsSentAgainAlone) {
  UploadServer store;
  store.fault = [&](const ScriptedRequest& request,
                    const std::string& step) -> std::optional<ScriptedReply> {
    if (step != "part 2" || store.tries[step] > 3) return std::nullopt;
    if (store.tries[step] == 1) return ScriptedReply{"", After::kReset};
    if (store.tries[step] == 2)
      return ScriptedReply{http_reply(503, "", "<Error><Code>SlowDown</Code></Error>")};
    ScriptedRequest damaged = request;
    damaged.body[5] ^= 1;
    return store.take_part("damaged", damaged);
  };
  FakeClock clock;
  const UrlOpener opener({.http = {.clock = &clock}, .object_stores = s3_at(store.server)});
  const std::string content = some_bytes(3 * kPart - 1);
  write_object(opener, "s3://b/a", content);
  EXPECT_TRUE(store.object == content);
  EXPECT_EQ(store.tries["part 1"], 1);
  EXPECT_EQ(store.tries["part 2"], 4);
  EXPECT_EQ(store.tries["part 3"], 1);
  EXPECT_EQ(store.aborted, 0);
}

TEST(S3Upload, ThatFailsLeavesNothing) {
  UploadServer store;
  store.fault = [](const ScriptedRequest&,
                   const std::string& step) -> std::optional<ScriptedReply> {
    if (step != "part 1") return std::nullopt;
    return ScriptedReply{http_reply(403, "", "<Error><Code>AccessDenied</Code></Error>")};
  };
  const UrlOpener opener({.object_stores = s3_at(store.server)});
  const std::string content = some_bytes(2 * kPart);
  EXPECT_THAT([&] { write_object(opener, "s3://b/a", content); },
              ::testing::Throws<Error>(::testing::Property(
                  &Error::what, HasSubstr("403 (AccessDenied) (url s3://b/a)"))));
  EXPECT_EQ(store.aborted, 1);
  EXPECT_FALSE(store.exists);
}

TEST(S3Upload, ACompletionWhoseAnswerIsLostIsRecognised) {
  UploadServer store;
  store.fault = [&](const ScriptedRequest&,
                    const std::string& step) -> std::optional<ScriptedReply> {
    if (step != "complete") return std::nullopt;
    if (store.tries[step] > 1)
      return ScriptedReply{http_reply(404, "", "<Error><Code>NoSuchUpload</Code></Error>")};
    store.put_together();
    return ScriptedReply{"", After::kReset};
  };
  FakeClock clock;
  const UrlOpener opener({.http = {.clock = &clock}, .object_stores = s3_at(store.server)});
  const std::string content = some_bytes(kPart + 1);
  write_object(opener, "s3://b/a", content);
  EXPECT_TRUE(store.object == content);
  EXPECT_EQ(store.aborted, 0);
}

TEST(S3Upload, AnObjectThatAnotherWroteMeanwhileStays) {
  UploadServer store;
  store.fault = [&](const ScriptedRequest& request,
                    const std::string& step) -> std::optional<ScriptedReply> {
    if (step != "complete") return std::nullopt;
    store.exists = true;
    store.own_number = "another's";
    if (request.header("if-none-match") != "*") return std::nullopt;
    return ScriptedReply{http_reply(412, "", "<Error><Code>PreconditionFailed</Code></Error>")};
  };
  const UrlOpener opener({.object_stores = s3_at(store.server)});
  EXPECT_EQ(code_of([&] { write_object(opener, "s3://b/a", some_bytes(kPart + 1)); }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(store.aborted, 1);
}

TEST(S3Upload, AnErrorInACompletionsBodyIsNoSuccess) {
  UploadServer store;
  store.fault = [&](const ScriptedRequest&,
                    const std::string& step) -> std::optional<ScriptedReply> {
    if (step != "complete") return std::nullopt;
    return ScriptedReply{http_reply(200, "", "<Error><Code>InternalError</Code></Error>")};
  };
  const UrlOpener opener({.object_stores = s3_at(store.server)});
  EXPECT_EQ(code_of([&] { write_object(opener, "s3://b/a", some_bytes(kPart + 1)); }),
            ErrorCode::kIo);
  EXPECT_EQ(store.aborted, 1);
}

TEST(GcsUpload, IsResumedWhereTheStoreSaysAndComparedByItsChecksum) {
  const std::string content = some_bytes(kPart + 100);
  const std::uint32_t crc = crc32c(std::as_bytes(std::span(content)));
  std::string sent_hash;
  std::string stored_hash;
  int aborted = 0;
  int begun = 0;
  const ScriptedHttpServer server([&](const ScriptedRequest& request) -> ScriptedReply {
    const std::string range = request.header("content-range");
    if (request.method == "DELETE") return ++aborted, ScriptedReply{http_reply(204, "", "")};
    if (request.method == "POST") {
      ++begun;
      EXPECT_THAT(request.target, HasSubstr("ifGenerationMatch=0"));
      return {http_reply(200, "Location: /session\r\n", "")};
    }
    if (request.method == "GET") return {http_reply(404, "", "")};
    if (range == "bytes 0-16777215/*") {
      if (request.number == 2) return {http_reply(308, "Range: bytes=0-999999\r\n", "")};
      return {http_reply(308, "Range: bytes=0-16777215\r\n", "")};
    }
    EXPECT_EQ(range, "bytes 16777216-16777315/16777316");
    sent_hash = request.header("x-goog-hash").substr(7);
    const std::string hash = stored_hash.empty() ? sent_hash : stored_hash;
    return {http_reply(200, "", "{\"crc32c\": \"" + hash + "\", \"generation\": \"7\"}")};
  });
  FakeClock clock;
  const UrlOpener opener(
      {.http = {.clock = &clock}, .object_stores = {.gcs = {.endpoint = server.url("")}}});
  write_object(opener, "gs://b/a", content);
  EXPECT_EQ(begun, 1);
  EXPECT_EQ(server.requests().size(), 5U) << "the first part twice, the last once";
  EXPECT_EQ(aborted, 0);
  EXPECT_EQ(crc32c(std::as_bytes(std::span("123456789", 9))), 0xE3069283U) << "RFC 3720's check";
  EXPECT_NE(crc, 0U);
  stored_hash = "AAAAAA==";
  EXPECT_EQ(code_of([&] { write_object(opener, "gs://b/a", content); }), ErrorCode::kCorrupt);
  EXPECT_THAT(server.requests().back().target, HasSubstr("/session"));
  EXPECT_EQ(aborted, 2) << "the object, then the session";
}

}  // namespace
}  // namespace millrace::io
