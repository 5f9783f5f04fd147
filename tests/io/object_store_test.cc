// s3:// and gs:// urls: their targets, their signatures, and uploads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "io/base/error.h"
#include "io/detail/stores/aws_signature.h"
#include "io/detail/stores/http_store.h"
#include "io/opener.h"
#include "tests/support/fake_clock.h"
#include "tests/support/nginx.h"
#include "tests/support/scripted_http_server.h"
#include "tests/support/temp_dir.h"

namespace millrace::io {
namespace {

using testing::After;
using testing::FakeClock;
using ::testing::HasSubstr;
using testing::http_reply;
using testing::http_serve;
using testing::Nginx;
using ::testing::Not;
using testing::ScriptedHttpServer;
using testing::ScriptedReply;
using testing::ScriptedRequest;
using testing::TempDir;

const ObjectStoreOptions::S3 kExampleKeys{
    .access_key_id = "AKIAIOSFODNN7EXAMPLE",
    .secret_access_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};

void write_text(ByteSink& sink, std::string_view text) {
  sink.write(std::as_bytes(std::span(text.data(), text.size())));
}

// Amazon's published GET example also signs a Range, which we do not. The signature here is from a
// Python transcription of the procedure, which reproduces Amazon's result for that example.
TEST(AwsSignature, CoversHostDateAndPayload) {
  const auto lines = detail::aws_signature_lines(
      {.method = "GET", .url = "https://examplebucket.s3.amazonaws.com/test.txt"},
      "20130524T000000Z", "us-east-1",
      {.access_key_id = kExampleKeys.access_key_id,
       .secret_access_key = kExampleKeys.secret_access_key});
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0], "x-amz-content-sha256: UNSIGNED-PAYLOAD");
  EXPECT_EQ(lines[1], "x-amz-date: 20130524T000000Z");
  EXPECT_EQ(lines[2],
            "Authorization: AWS4-HMAC-SHA256 "
            "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
            "SignedHeaders=host;x-amz-content-sha256;x-amz-date,"
            "Signature=5c0d4ff29e72b8f94c5b6720369921e587e39bf7a64e456887dec4b43a2d1b77");
}

// "GET Bucket (List Objects)" of the same page, whose signature Amazon publishes.
TEST(AwsSignature, CoversTheQuery) {
  const auto lines = detail::aws_signature_lines(
      {.method = "GET",
       .url = "https://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J",
       .body_sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      "20130524T000000Z", "us-east-1",
      {.access_key_id = kExampleKeys.access_key_id,
       .secret_access_key = kExampleKeys.secret_access_key});
  EXPECT_THAT(lines.back(),
              HasSubstr("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

std::string url_of(const std::string& url, const ObjectStoreOptions& stores = {}) {
  for (const detail::HttpStoreKind& kind : detail::http_store_kinds())
    if (url.starts_with(std::string(kind.scheme) + "://"))
      return kind.make({}, stores)->target(url).url;
  return "";
}

TEST(ObjectStore, UrlsLeadToTheStores) {
  EXPECT_EQ(url_of("s3://bucket/a/b.tar"), "https://bucket.s3.us-east-1.amazonaws.com/a/b.tar");
  EXPECT_EQ(url_of("s3://my.bucket/a", {.s3 = {.region = "eu-west-1"}}),
            "https://s3.eu-west-1.amazonaws.com/my.bucket/a");
  EXPECT_EQ(url_of("s3://bucket/a b+c#1?.tar", {.s3 = {.endpoint = "http://127.0.0.1:9000"}}),
            "http://127.0.0.1:9000/bucket/a%20b%2Bc%231%3F.tar");
  EXPECT_EQ(url_of("gs://bucket/a.tar"), "https://storage.googleapis.com/bucket/a.tar");
  EXPECT_EQ(url_of("hf://datasets/owner/name/a b/0.tar"),
            "https://huggingface.co/datasets/owner/name/resolve/main/a%20b/0.tar");
  EXPECT_EQ(url_of("hf://datasets/owner/name@refs%2Fpr%2F1/0.tar"),
            "https://huggingface.co/datasets/owner/name/resolve/refs%2Fpr%2F1/0.tar");
  EXPECT_EQ(url_of("hf://owner/name/w.safetensors"),
            "https://huggingface.co/owner/name/resolve/main/w.safetensors");
  for (const std::string bad :
       {"s3://bucket", "s3://bucket/", "s3:///key", "gs://", "hf://a.tar",
        "hf://datasets/owner/name", "hf://datasets//name/a", "hf://a/b@/c"}) {
    EXPECT_THROW(url_of(bad), Error) << bad;
  }
}

TEST(ObjectStore, ReadsTheEnvironmentOfTheStoresTools) {
  ::setenv("AWS_DEFAULT_REGION", "eu-central-1", 1);
  ::setenv("AWS_ENDPOINT_URL", "localhost:9000/", 1);
  const ObjectStoreOptions options = ObjectStoreOptions::from_environment();
  ::unsetenv("AWS_DEFAULT_REGION");
  ::unsetenv("AWS_ENDPOINT_URL");
  EXPECT_EQ(options.s3.region, "eu-central-1");
  EXPECT_EQ(options.s3.endpoint, "http://localhost:9000");
}

TEST(ObjectStore, S3RequestsAreSignedAndOtherHostsLearnNothing) {
  const ScriptedHttpServer other([](const ScriptedRequest& request) -> ScriptedReply {
    return {http_serve(request, "hello")};
  });
  const ScriptedHttpServer store([&](const ScriptedRequest& request) -> ScriptedReply {
    if (request.target == "/bucket/moved") {
      return {http_reply(307, "Location: " + other.url("/") + "\r\n", "")};
    }
    return {http_serve(request, "hello")};
  });
  ObjectStoreOptions stores{.s3 = kExampleKeys};
  stores.s3.endpoint = store.url("");
  stores.s3.session_token = "session";
  const UrlOpener opener(
      {.http = {.headers = {{"Authorization", "for http alone"}}}, .object_stores = stores});
  EXPECT_EQ(read_object(opener, "s3://bucket/a.tar", 100).text(), "hello");
  EXPECT_EQ(read_object(opener, "s3://bucket/moved", 100).text(), "hello");
  const ScriptedRequest first = store.requests()[0];
  EXPECT_EQ(first.target, "/bucket/a.tar");
  EXPECT_THAT(first.header("authorization"), HasSubstr("AWS4-HMAC-SHA256 Credential=AKIA"));
  EXPECT_EQ(first.header("x-amz-security-token"), "session");
  EXPECT_EQ(other.requests()[0].header("authorization"), "");
  EXPECT_EQ(other.requests()[0].header("x-amz-security-token"), "");
}

// Of a server's folders "d/../a" is "a"; a bucket has no folders.
TEST(ObjectStore, DotsOfAKeyAreItsOwn) {
  const ScriptedHttpServer store([&](const ScriptedRequest& request) -> ScriptedReply {
    return {http_serve(request, "hello")};
  });
  ObjectStoreOptions stores{.s3 = kExampleKeys};
  stores.s3.endpoint = stores.gcs.endpoint = stores.hub.endpoint = store.url("");
  stores.gcs.access_token = "t";
  const UrlOpener opener({.object_stores = stores});
  for (const char* url :
       {"s3://bucket/d/sub/../a.tar", "gs://bucket/d/./a.tar", "hf://datasets/o/n/d/../a.tar"})
    EXPECT_EQ(read_object(opener, url, 100).text(), "hello");
  read_object(opener, store.url("/d/sub/../a.tar"), 100);
  std::vector<std::string> targets;
  for (const ScriptedRequest& request : store.requests()) targets.push_back(request.target);
  EXPECT_THAT(targets, ::testing::ElementsAre("/bucket/d/sub/../a.tar", "/bucket/d/./a.tar",
                                              "/datasets/o/n/resolve/main/d/../a.tar", "/d/a.tar"));
}

TEST(ObjectStore, GcsRequestsBearTheToken) {
  const ScriptedHttpServer store([](const ScriptedRequest& request) -> ScriptedReply {
    return {http_serve(request, "hello")};
  });
  const UrlOpener opener(
      {.object_stores = {.gcs = {.access_token = "token", .endpoint = store.url("")}}});
  EXPECT_EQ(read_object(opener, "gs://bucket/a.tar", 100).text(), "hello");
  EXPECT_EQ(store.requests()[0].target, "/bucket/a.tar");
  EXPECT_EQ(store.requests()[0].header("authorization"), "Bearer token");
}

TEST(Upload, IsSentWholeByFinishAndOnlyThen) {
  if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
  const TempDir dir;
  const Nginx nginx(dir.path(), {.location_lines = "dav_methods PUT; create_full_put_path on; "
                                                   "client_max_body_size 100m;"});
  const UrlOpener opener;
  const std::string content(5'000'000, 'x');
  {
    const auto dropped = opener.open_sink(nginx.url("dropped"));
    write_text(*dropped, content);
  }
  const auto sink = opener.open_sink(nginx.url("runs/1/model.safetensors"));
  write_text(*sink, content);
  EXPECT_FALSE(std::filesystem::exists(dir / "runs"));
  sink->finish();
  EXPECT_TRUE(testing::read_file(dir / "runs/1/model.safetensors") == content);
  EXPECT_FALSE(std::filesystem::exists(dir / "dropped"));
}

TEST(Upload, IsTriedAgainAndSignedEachTime) {
  FakeClock clock;
  const ScriptedHttpServer store([](const ScriptedRequest& request) -> ScriptedReply {
    if (request.number == 0) return {http_reply(503, "", "slow down")};
    if (request.number == 1) return {"", After::kReset};
    return {http_reply(200, "", "")};
  });
  ObjectStoreOptions stores{.s3 = kExampleKeys};
  stores.s3.endpoint = store.url("");
  const UrlOpener opener({.http = {.clock = &clock}, .object_stores = stores});
  const auto sink = opener.open_sink("s3://bucket/a", {.replace = Replace::kAtomically});
  write_text(*sink, "hello");
  sink->finish();
  ASSERT_EQ(store.requests().size(), 3U);
  for (const ScriptedRequest& request : store.requests()) {
    EXPECT_EQ(request.method, "PUT");
    EXPECT_EQ(request.body, "hello");
    EXPECT_NE(request.header("authorization"), "");
  }
}

TEST(Upload, ARefusalIsAFaultThatNamesTheUrl) {
  for (const int status : {301, 403, 404, 501}) {
    const ScriptedHttpServer server([&](const ScriptedRequest&) -> ScriptedReply {
      return {http_reply(status, "Location: /elsewhere\r\n", "no")};
    });
    const auto sink =
        UrlOpener().open_sink(server.url("/a?token=secret"), {.replace = Replace::kAtomically});
    write_text(*sink, "hello");
    try {
      sink->finish();
      FAIL() << status;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(std::to_string(status)));
      EXPECT_EQ(error.where().url, server.url("/a"));
      EXPECT_THAT(error.what(), Not(HasSubstr("secret")));
    }
    EXPECT_EQ(server.requests().size(), 1U);
  }
}

TEST(Upload, AStalledServerIsGivenUp) {
  const ScriptedHttpServer server([](const ScriptedRequest&) -> ScriptedReply {
    return {"", After::kHang};
  });
  FakeClock clock;
  const HttpOptions brisk{.first_byte_timeout = std::chrono::milliseconds(100),
                          .retry = {.patience = std::chrono::milliseconds(500)},
                          .clock = &clock};
  const auto sink =
      UrlOpener({.http = brisk}).open_sink(server.url("/a"), {.replace = Replace::kAtomically});
  write_text(*sink, "hello");
  EXPECT_THROW(sink->finish(), Error);
}

/// A server that ignores conditions, as plain ones do; PUTs of which the answer is lost.
struct PlainServer {
  ScriptedReply operator()(const ScriptedRequest& request) {
    if (request.method == "HEAD") return {http_reply(object.empty() ? 404 : 200, "", "")};
    object = request.body;
    conditions.push_back(request.header("if-none-match"));
    if (lost-- > 0) return {"", After::kReset};
    return {http_reply(201, "", "")};
  }
  std::string object = {};
  std::vector<std::string> conditions = {};
  int lost = 0;
};

TEST(Upload, ReplacesNoObjectOfAServerThatIgnoresConditions) {
  PlainServer plain{.object = "there"};
  const ScriptedHttpServer server([&](const ScriptedRequest& request) { return plain(request); });
  const UrlOpener opener;
  EXPECT_THROW(opener.open_sink(server.url("/a")), Error);
  plain.object.clear();
  const auto sink = opener.open_sink(server.url("/a"));
  write_text(*sink, "late");
  plain.object = "came between";
  EXPECT_THROW(sink->finish(), Error);
  EXPECT_EQ(plain.object, "came between");
  const auto forced = opener.open_sink(server.url("/a"), {.replace = Replace::kAtomically});
  write_text(*forced, "new");
  forced->finish();
  EXPECT_EQ(plain.object, "new");
  EXPECT_THAT(plain.conditions, ::testing::ElementsAre(""));
}

TEST(Upload, AServerMayRefuseByTheCondition) {
  const ScriptedHttpServer server([](const ScriptedRequest& request) -> ScriptedReply {
    const bool known = request.header("if-none-match") == "*";
    return {http_reply(request.method == "HEAD" ? 405 : known ? 412 : 201, "", "")};
  });
  const auto sink = UrlOpener().open_sink(server.url("/a"));
  write_text(*sink, "hello");
  try {
    sink->finish();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("may not be replaced"));
  }
}

TEST(Upload, ItsOwnObjectWhoseAnswerWasLostIsNoOther) {
  PlainServer plain{.lost = 1};
  const ScriptedHttpServer server([&](const ScriptedRequest& request) { return plain(request); });
  FakeClock clock;
  const auto sink = UrlOpener({.http = {.clock = &clock}}).open_sink(server.url("/a"));
  write_text(*sink, "hello");
  sink->finish();
  EXPECT_THAT(plain.conditions, ::testing::ElementsAre("*", ""));
  EXPECT_EQ(plain.object, "hello");
}

}  // namespace
}  // namespace millrace::io
