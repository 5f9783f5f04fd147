// Credentials as the stores' own tools find them: where from, how often, and what is told of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "io/base/base64.h"
#include "io/base/error.h"
#include "io/detail/stores/aws_credentials.h"
#include "io/detail/stores/google_credentials.h"
#include "io/detail/stores/xml.h"
#include "io/opener.h"
#include "tests/support/fake_clock.h"
#include "tests/support/scripted_http_server.h"
#include "tests/support/temp_dir.h"

namespace millrace::io {
namespace {

using Variables = std::map<std::string, std::string>;
using testing::FakeClock;
using ::testing::HasSubstr;
using testing::http_reply;
using testing::http_serve;
using ::testing::Not;
using testing::ScriptedHttpServer;
using testing::ScriptedReply;
using testing::ScriptedRequest;
using testing::TempDir;
using testing::write_file;

detail::Environment environment(Variables variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

// Nothing is looked for outside of the test.
Variables isolated(Variables more = {}) {
  more.insert({{"AWS_EC2_METADATA_DISABLED", "true"}, {"NO_GCE_CHECK", "true"}});
  return more;
}

detail::AwsKeys aws_keys(const Variables& variables) {
  detail::HttpClient client(HttpOptions{});
  return detail::find_aws_keys(client, environment(variables), {}).secret;
}

std::string date_in(int seconds) {
  const std::time_t time = std::time(nullptr) + seconds;
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts)};
}

TEST(AwsCredentials, TheEnvironmentComesBeforeTheFiles) {
  const TempDir dir;
  write_file(dir / ".aws/credentials",
             "[default]\naws_access_key_id = FILE\naws_secret_access_key=s\n");
  const Variables with_file = isolated({{"HOME", dir.path().string()}});
  EXPECT_EQ(aws_keys(with_file).access_key_id, "FILE");
  Variables with_both = with_file;
  with_both["AWS_ACCESS_KEY_ID"] = "ENV";
  with_both["AWS_SECRET_ACCESS_KEY"] = "t";
  EXPECT_EQ(aws_keys(with_both).access_key_id, "ENV");
  EXPECT_EQ(aws_keys(isolated()).access_key_id, "") << "anonymous";
}

TEST(AwsCredentials, TheProfileIsTheOneThatIsNamed) {
  const TempDir dir;
  write_file(dir / "credentials",
             "[default]\r\naws_access_key_id=A\r\n[ team ]\n# a comment\n"
             "aws_access_key_id=B\naws_secret_access_key=has=equals\naws_session_token=T\n");
  write_file(dir / "config",
             "[default]\nregion=us-west-2\n[profile team]\nregion = eu-west-3\n"
             "s3 =\n  region = not-this\nendpoint_url=http://store:9000\n[profile sso]\n"
             "sso_session = x\n");
  Variables variables = isolated({{"AWS_SHARED_CREDENTIALS_FILE", dir / "credentials"},
                                  {"AWS_CONFIG_FILE", dir / "config"},
                                  {"AWS_PROFILE", "team"}});
  const detail::AwsKeys keys = aws_keys(variables);
  EXPECT_EQ(keys.access_key_id, "B");
  EXPECT_EQ(keys.secret_access_key, "has=equals");
  EXPECT_EQ(keys.session_token, "T");
  auto profile = detail::aws_profile(environment(variables));
  EXPECT_EQ(profile["region"], "eu-west-3");
  EXPECT_EQ(profile["endpoint_url"], "http://store:9000");
  variables["AWS_PROFILE"] = "sso";
  EXPECT_THAT([&] { aws_keys(variables); }, ::testing::Throws<Error>(::testing::Property(
                                                &Error::what, HasSubstr("sso_session"))));
  variables["AWS_PROFILE"] = "nobody";
  EXPECT_THAT([&] { aws_keys(variables); },
              ::testing::Throws<Error>(::testing::Property(&Error::what, HasSubstr("nobody"))));
}

TEST(AwsCredentials, AWebIdentityIsExchangedInTheBodyOfAPost) {
  const TempDir dir;
  write_file(dir / "token", "web+token\n");
  const ScriptedHttpServer sts([](const ScriptedRequest&) -> ScriptedReply {
    return {http_reply(200, "Date: Mon, 01 Jan 2029 00:00:00 GMT\r\n",
                       "<?xml version=\"1.0\"?><AssumeRoleWithWebIdentityResponse xmlns=\"x\">"
                       "<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>K</AccessKeyId>"
                       "<SecretAccessKey>S&amp;s</SecretAccessKey><SessionToken>T</SessionToken>"
                       "<Expiration>2029-01-01T01:00:00Z</Expiration></Credentials>"
                       "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>")};
  });
  detail::HttpClient client(HttpOptions{});
  const auto found =
      detail::find_aws_keys(client,
                            environment(isolated({{"AWS_WEB_IDENTITY_TOKEN_FILE", dir / "token"},
                                                  {"AWS_ROLE_ARN", "arn:aws:iam::1:role/r"},
                                                  {"AWS_ENDPOINT_URL_STS", sts.url("")}})),
                            {});
  EXPECT_EQ(found.secret.secret_access_key, "S&s");
  EXPECT_EQ(found.lifetime, std::chrono::hours(1)) << "by the server's clock";
  ASSERT_EQ(sts.requests().size(), 1U);
  EXPECT_EQ(sts.requests()[0].target, "/");
  EXPECT_THAT(sts.requests()[0].body, HasSubstr("&WebIdentityToken=web%2Btoken"));
}

const char* const kJsonKeys =
    R"({"AccessKeyId": "K", "SecretAccessKey": "S", "Token": "T", "Code": "Success",
        "Expiration": "2029-01-01T00:00:00Z"})";

TEST(AwsCredentials, TheContainersEndpointGetsItsToken) {
  const TempDir dir;
  write_file(dir / "token", "pod-token\n");
  const ScriptedHttpServer agent(
      [](const ScriptedRequest&) -> ScriptedReply { return {http_reply(200, "", kJsonKeys)}; });
  Variables variables = isolated({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", agent.url("/keys")},
                                  {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", dir / "token"}});
  EXPECT_EQ(aws_keys(variables).session_token, "T");
  EXPECT_EQ(agent.requests()[0].header("authorization"), "pod-token");
  for (const char* elsewhere : {"http://example.org/keys", "http://127.0.0.1.example.org/"}) {
    variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = elsewhere;
    EXPECT_THROW(aws_keys(variables), Error) << elsewhere;
  }
}

TEST(AwsCredentials, TheInstanceIsAskedWithASessionToken) {
  const ScriptedHttpServer metadata([](const ScriptedRequest& request) -> ScriptedReply {
    if (request.method == "PUT" && request.target == "/latest/api/token")
      return {http_reply(200, "", "session")};
    if (request.header("x-aws-ec2-metadata-token") != "session") return {http_reply(401, "", "")};
    if (request.target.ends_with("/security-credentials/")) return {http_reply(200, "", "role\n")};
    return {http_reply(200, "", kJsonKeys)};
  });
  EXPECT_EQ(aws_keys({{"AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.url("")}}).access_key_id, "K");
  EXPECT_EQ(metadata.requests().back().target, "/latest/meta-data/iam/security-credentials/role");
}

TEST(AwsCredentials, AnInstanceWithoutARoleIsAnonymous) {
  const ScriptedHttpServer metadata([](const ScriptedRequest& request) -> ScriptedReply {
    return {http_reply(request.method == "PUT" ? 200 : 404, "", "x")};
  });
  EXPECT_EQ(aws_keys({{"AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.url("")}}).access_key_id, "");
}

struct RsaKey {
  EVP_PKEY* key = EVP_RSA_gen(2048);
  RsaKey() = default;
  RsaKey(const RsaKey&) = delete;
  RsaKey& operator=(const RsaKey&) = delete;
  ~RsaKey() { EVP_PKEY_free(key); }

  std::string pem() const {
    BIO* bio = BIO_new(BIO_s_mem());
    PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    std::string text(data, static_cast<std::size_t>(size));
    BIO_free(bio);
    return text;
  }
  bool verifies(const std::string& text, const std::string& signature) const {
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    EVP_DigestVerifyInit(context, nullptr, EVP_sha256(), nullptr, key);
    const int good = EVP_DigestVerify(
        context, reinterpret_cast<const unsigned char*>(signature.data()), signature.size(),
        reinterpret_cast<const unsigned char*>(text.data()), text.size());
    EVP_MD_CTX_free(context);
    return good == 1;
  }
};

std::string from_base64_url(std::string text) {
  std::replace(text.begin(), text.end(), '-', '+');
  std::replace(text.begin(), text.end(), '_', '/');
  std::size_t padding = 0;
  for (; text.size() % 4 != 0; ++padding) text += '=';
  std::string bytes(text.size() / 4 * 3, '\0');
  EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                  reinterpret_cast<const unsigned char*>(text.data()),
                  static_cast<int>(text.size()));
  bytes.resize(bytes.size() - padding);
  return bytes;
}

TEST(GoogleCredentials, AServiceAccountSignsItsAssertion) {
  const RsaKey key;
  const std::string jwt = detail::service_account_jwt(
      {.email = "me@x", .key_id = "7", .private_key = key.pem(), .token_url = "https://t"}, 1000);
  const std::size_t first = jwt.find('.');
  const std::size_t last = jwt.rfind('.');
  EXPECT_TRUE(key.verifies(jwt.substr(0, last), from_base64_url(jwt.substr(last + 1))));
  const auto header = nlohmann::json::parse(from_base64_url(jwt.substr(0, first)));
  const auto claims =
      nlohmann::json::parse(from_base64_url(jwt.substr(first + 1, last - first - 1)));
  EXPECT_EQ(header, nlohmann::json({{"alg", "RS256"}, {"kid", "7"}, {"typ", "JWT"}}));
  EXPECT_EQ(claims["iss"], "me@x");
  EXPECT_EQ(claims["aud"], "https://t");
  EXPECT_EQ(claims["exp"], 4600);
  EXPECT_THROW(detail::service_account_jwt({.private_key = "no key"}, 0), Error);
}

std::string google_token(const Variables& variables) {
  detail::HttpClient client(HttpOptions{});
  return detail::find_google_token(client, environment(variables), {}).secret;
}

// One for all: it takes a tenth of a second.
const std::string& some_pem() {
  static const std::string pem = RsaKey().pem();
  return pem;
}

std::string service_account_file(const std::string& token_url) {
  return nlohmann::json{{"type", "service_account"},
                        {"client_email", "me@x"},
                        {"private_key", some_pem()},
                        {"token_uri", token_url}}
      .dump();
}

TEST(GoogleCredentials, AnAssertionOfAClockThatIsOffIsDatedByTheServers) {
  const TempDir dir;
  const ScriptedHttpServer oauth([](const ScriptedRequest& request) -> ScriptedReply {
    const std::size_t from = request.body.find('.') + 1;
    const auto claims = nlohmann::json::parse(
        from_base64_url(request.body.substr(from, request.body.rfind('.') - from)));
    const auto off = claims["iat"].get<std::int64_t>() - (std::time(nullptr) + 1200);
    if (off < -300 || off > 300)
      return {http_reply(400, "Date: " + date_in(1200) + "\r\n", R"({"error": "invalid_grant"})")};
    return {http_reply(200, "", R"({"access_token": "tok", "expires_in": 3599})")};
  });
  write_file(dir / "key.json", service_account_file(oauth.url("/token")));
  EXPECT_EQ(google_token(isolated({{"GOOGLE_APPLICATION_CREDENTIALS", dir / "key.json"}})), "tok");
  EXPECT_EQ(oauth.requests().size(), 2U);
}

TEST(GoogleCredentials, AUsersRefreshTokenIsExchanged) {
  const TempDir dir;
  const ScriptedHttpServer oauth([](const ScriptedRequest&) -> ScriptedReply {
    return {http_reply(200, "", R"({"access_token": "tok", "expires_in": 3599})")};
  });
  write_file(dir / "gcloud/application_default_credentials.json",
             nlohmann::json{{"type", "authorized_user"},
                            {"client_id", "id"},
                            {"client_secret", "s/s"},
                            {"refresh_token", "1//r"},
                            {"token_uri", oauth.url("/token")}}
                 .dump());
  EXPECT_EQ(google_token(isolated({{"CLOUDSDK_CONFIG", dir / "gcloud"}})), "tok");
  EXPECT_EQ(oauth.requests()[0].body,
            "grant_type=refresh_token&client_id=id&client_secret=s%2Fs&refresh_token=1%2F%2Fr");
}

TEST(GoogleCredentials, TheMetadataServerHasToBeGoogles) {
  std::string flavor = "Metadata-Flavor: Google\r\n";
  const ScriptedHttpServer metadata([&](const ScriptedRequest&) -> ScriptedReply {
    return {http_reply(200, flavor, R"({"access_token": "tok", "expires_in": 300})")};
  });
  const Variables variables{{"GCE_METADATA_HOST", "127.0.0.1:" + std::to_string(metadata.port())}};
  EXPECT_EQ(google_token(variables), "tok");
  EXPECT_EQ(metadata.requests()[0].header("metadata-flavor"), "Google");
  flavor.clear();
  EXPECT_EQ(google_token(variables), "");
}

TEST(GoogleCredentials, UnsupportedAndMissingFilesAreNamed) {
  const TempDir dir;
  write_file(dir / "x.json", R"({"type": "external_account"})");
  for (const auto& [file, said] :
       Variables{{"x.json", "external_account"}, {"y.json", "no file"}}) {
    const Variables variables = isolated({{"GOOGLE_APPLICATION_CREDENTIALS", dir / file}});
    EXPECT_THAT([&] { google_token(variables); },
                ::testing::Throws<Error>(::testing::Property(&Error::what, HasSubstr(said))));
  }
}

// A store whose tokens are good for one answer, and a token server that counts.
struct ExpiringStore {
  std::atomic<int> issued{0};
  std::string accepted = "token-1";
  std::string object = std::string(3'000'000, 'x');
  TempDir dir;
  ScriptedHttpServer oauth{[this](const ScriptedRequest&) -> ScriptedReply {
    return {http_reply(
        200, "",
        R"({"expires_in": 3600, "access_token": "token-)" + std::to_string(++issued) + "\"}")};
  }};

  ObjectStoreOptions options(const std::string& endpoint) {
    write_file(dir / "key.json", service_account_file(oauth.url("/token")));
    ObjectStoreOptions stores{.gcs = {.endpoint = endpoint}};
    stores.environment =
        environment(isolated({{"GOOGLE_APPLICATION_CREDENTIALS", dir / "key.json"}}));
    return stores;
  }
};

TEST(Credentials, OneFetchServesAllReaders) {
  ExpiringStore expiring;
  const ScriptedHttpServer store([&](const ScriptedRequest& request) -> ScriptedReply {
    return {http_serve(request, "hello")};
  });
  const UrlOpener opener({.object_stores = expiring.options(store.url(""))});
  std::vector<std::jthread> readers;
  for (int i = 0; i < 8; ++i)
    readers.emplace_back([&] { EXPECT_EQ(read_object(opener, "gs://b/a", 100).text(), "hello"); });
  readers.clear();
  EXPECT_EQ(expiring.issued, 1);
  for (const ScriptedRequest& request : store.requests())
    EXPECT_EQ(request.header("authorization"), "Bearer token-1");
}

TEST(Credentials, AreRenewedBeforeTheyExpire) {
  ExpiringStore expiring;
  FakeClock clock;
  const ScriptedHttpServer store([&](const ScriptedRequest& request) -> ScriptedReply {
    return {http_serve(request, "hello")};
  });
  const UrlOpener opener(
      {.http = {.clock = &clock}, .object_stores = expiring.options(store.url(""))});
  const auto token_after = [&](std::chrono::minutes time) {
    clock.advance(time);
    read_object(opener, "gs://b/a", 100);
    return store.requests().back().header("authorization");
  };
  EXPECT_EQ(token_after(std::chrono::minutes(0)), "Bearer token-1");
  EXPECT_EQ(token_after(std::chrono::minutes(54)), "Bearer token-1");
  EXPECT_EQ(token_after(std::chrono::minutes(2)), "Bearer token-2");
}

TEST(Credentials, ThatExpireInMidShardAreRenewedOnce) {
  ExpiringStore expiring;
  const ScriptedHttpServer store([&](const ScriptedRequest& request) -> ScriptedReply {
    if (request.header("authorization") != "Bearer " + expiring.accepted)
      return {http_reply(401, "", R"({"error": {"status": "UNAUTHENTICATED"}})")};
    const std::string reply = http_serve(request, expiring.object, "ETag: \"1\"\r\n");
    if (request.range_start() > 0) return {reply};
    expiring.accepted = "token-2";
    return {reply.substr(0, 2'000'000), testing::After::kReset};
  });
  FakeClock clock;
  const UrlOpener opener(
      {.http = {.clock = &clock}, .object_stores = expiring.options(store.url(""))});
  EXPECT_TRUE(read_object(opener, "gs://b/a", 4'000'000).text() == expiring.object);
  EXPECT_EQ(expiring.issued, 2);
}

TEST(Credentials, ThatAreRefusedTwiceAreNotAskedForAgain) {
  ExpiringStore expiring;
  const ScriptedHttpServer store([&](const ScriptedRequest&) -> ScriptedReply {
    return {http_reply(401, "", R"({"error": {"status": "UNAUTHENTICATED"}})")};
  });
  const UrlOpener opener({.object_stores = expiring.options(store.url(""))});
  try {
    read_object(opener, "gs://b/a", 100);
    FAIL() << "read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kPermissionDenied);
    EXPECT_THAT(error.what(), HasSubstr("401 (UNAUTHENTICATED)"));
    EXPECT_THAT(error.what(), Not(HasSubstr("token-")));
  }
  EXPECT_EQ(store.requests().size(), 2U);
  EXPECT_EQ(expiring.issued, 2);
}

TEST(Credentials, AnExpiredS3TokenIsReadAgainFromItsFile) {
  const TempDir dir;
  const auto write = [&](const std::string& token) {
    write_file(dir / "credentials",
               "[default]\naws_access_key_id=K\naws_secret_access_key=S\naws_session_token=" +
                   token + "\n");
  };
  const ScriptedHttpServer store([&](const ScriptedRequest& request) -> ScriptedReply {
    if (request.header("x-amz-security-token") == "new") return {http_serve(request, "hello")};
    write("new");
    return {http_reply(400, "", "<Error><Code>ExpiredToken</Code><Message>m</Message></Error>")};
  });
  write("old");
  ObjectStoreOptions stores{.s3 = {.endpoint = store.url("")}};
  stores.environment =
      environment(isolated({{"AWS_SHARED_CREDENTIALS_FILE", dir / "credentials"}}));
  EXPECT_EQ(read_object(UrlOpener({.object_stores = stores}), "s3://b/a", 100).text(), "hello");
  EXPECT_EQ(store.requests().size(), 2U);
}

TEST(Credentials, AClockTwentyMinutesOffIsSetByTheStores) {
  const std::string server_date = "Date: " + date_in(1200) + "\r\n";
  const ScriptedHttpServer store([&](const ScriptedRequest& request) -> ScriptedReply {
    std::tm parts{};
    ::strptime(request.header("x-amz-date").c_str(), "%Y%m%dT%H%M%SZ", &parts);
    const std::time_t off = timegm(&parts) - (std::time(nullptr) + 1200);
    if (off < -60 || off > 60)
      return {
          http_reply(403, server_date,
                     "<?xml version=\"1.0\"?><Error><Code>RequestTimeTooSkewed</Code></Error>")};
    return {http_serve(request, "hello")};
  });
  const ObjectStoreOptions stores{
      .s3 = {.access_key_id = "K", .secret_access_key = "S", .endpoint = store.url("")}};
  const UrlOpener opener({.object_stores = stores});
  EXPECT_EQ(read_object(opener, "s3://b/a", 100).text(), "hello");
  EXPECT_EQ(read_object(opener, "s3://b/a", 100).text(), "hello");
  EXPECT_EQ(store.requests().size(), 3U) << "the second reader knows the time";
}

TEST(Xml, IsParsedWithinLimits) {
  const auto root = detail::parse_xml(
      "<?xml version='1.0'?><!-- a --><R x=\"/>\"><A>1 &lt;&#x41;&#233;</A><B/><A>2</A></R>\n",
      "x");
  EXPECT_EQ(root.text_of("A"), "1 <A\xC3\xA9");
  EXPECT_EQ(root.children.size(), 3U);
  std::string deep;
  std::string wide = "<r>";
  for (int i = 0; i < 20; ++i) deep += "<a>";
  for (int i = 0; i < 100'001; ++i) wide += "<a/>";
  for (const std::string& bad :
       {std::string(""), std::string("<a>"), std::string("<a></b>"), std::string("text"),
        std::string("<!DOCTYPE a><a/>"), std::string("<a/><b/>"), std::string("<a b=\"c"), deep,
        wide + "</r>"})
    EXPECT_THROW(detail::parse_xml(bad, "x"), Error) << bad.substr(0, 40);
}

}  // namespace
}  // namespace millrace::io
