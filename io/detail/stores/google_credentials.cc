#include "io/detail/stores/google_credentials.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "io/base/base64.h"
#include "io/base/error.h"
#include "io/base/json.h"
#include "io/base/text.h"
#include "io/detail/http/http_call.h"
#include "io/detail/http/url.h"
#include "io/opener.h"

namespace millrace::io::detail {
namespace {

using FetchedToken = Renewed<std::string>::Fetched;
using Json = nlohmann::json;

constexpr const char* kTokenUrl = "https://oauth2.googleapis.com/token";
constexpr const char* kScope = "https://www.googleapis.com/auth/devstorage.read_write";
constexpr std::int64_t kHour = 3600;

struct OpensslDeleter {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
template <typename Handle>
using Openssl = std::unique_ptr<Handle, OpensslDeleter>;

[[noreturn]] void corrupt(const std::string& message, const std::string& url = "") {
  throw Error(ErrorCode::kCorrupt, message, {.url = url});
}

std::string rs256(const std::string& pem, std::string_view text) {
  const Openssl<BIO> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  const Openssl<EVP_PKEY> key(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
  const Openssl<EVP_MD_CTX> context(EVP_MD_CTX_new());
  const auto* data = reinterpret_cast<const unsigned char*>(text.data());
  std::size_t size = 0;
  if (!key || EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_RSA ||
      EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key.get()) != 1 ||
      EVP_DigestSign(context.get(), nullptr, &size, data, text.size()) != 1)
    corrupt("the service account's private key is not an RSA key in PEM");
  std::string signature(size, '\0');
  if (EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, data,
                     text.size()) != 1)
    corrupt("the service account's private key does not sign");
  signature.resize(size);
  return signature;
}

FetchedToken from_answer(const std::string& body, const std::string& url) {
  try {
    const auto json = parse_json<Json>(body, "token", {.depth = 8});
    return {.secret = json.at("access_token").get<std::string>(),
            .lifetime = std::chrono::seconds(
                json_integer<std::int32_t>(json.at("expires_in"), "expires_in", 0))};
  } catch (const Json::exception&) {
    corrupt("the answer holds no access token", url);
  }
}

HttpAnswer post_form(HttpClient& client, const std::string& url, const std::string& form,
                     std::vector<long> also, const std::stop_token& stop) {
  return call(client, unsigned_target(url),
              {.method = "POST",
               .header_lines = {"Content-Type: application/x-www-form-urlencoded"},
               .body = Bytes::copy_of(form),
               .also = std::move(also)},
              stop);
}

// An assertion dated by a clock that is off is refused: then it is dated by the server's clock.
FetchedToken from_service_account(HttpClient& client, const ServiceAccount& account,
                                  const std::stop_token& stop) {
  const auto post = [&](std::int64_t now, std::vector<long> also) {
    return post_form(client, account.token_url,
                     "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=" +
                         service_account_jwt(account, now),
                     std::move(also), stop);
  };
  HttpAnswer answer = post(std::time(nullptr), {400});
  if (answer.head.status() == 400)
    answer = post(server_time(answer.head).value_or(std::time(nullptr)), {});
  return from_answer(answer.body, account.token_url);
}

FetchedToken from_refresh_token(HttpClient& client, const Json& file, const std::stop_token& stop) {
  const std::string url = file.value("token_uri", kTokenUrl);
  const auto field = [&](const char* name) {
    return percent_encoded(file.at(name).get<std::string>());
  };
  const std::string form = "grant_type=refresh_token&client_id=" + field("client_id") +
                           "&client_secret=" + field("client_secret") +
                           "&refresh_token=" + field("refresh_token");
  return from_answer(post_form(client, url, form, {}, stop).body, url);
}

FetchedToken from_file(HttpClient& client, const std::string& path, const std::string& text,
                       const std::stop_token& stop) {
  try {
    const auto file = parse_json<Json>(text, "credentials", {.depth = 8});
    const std::string type = file.at("type").get<std::string>();
    if (type == "authorized_user") return from_refresh_token(client, file, stop);
    if (type != "service_account")
      throw Error(ErrorCode::kUnsupported,
                  "Google credentials of the type " + printable(type) +
                      " are not supported: GOOGLE_OAUTH_ACCESS_TOKEN may hold the token that "
                      "`gcloud auth print-access-token` prints",
                  {.url = path});
    return from_service_account(client,
                                {.email = file.at("client_email").get<std::string>(),
                                 .key_id = file.value("private_key_id", ""),
                                 .private_key = file.at("private_key").get<std::string>(),
                                 .token_url = file.value("token_uri", kTokenUrl)},
                                stop);
  } catch (const Json::exception&) {
    corrupt("the file holds no Google credentials", path);
  }
}

std::optional<FetchedToken> token_from_instance(HttpClient& client, const Environment& environment,
                                                const std::stop_token& stop) {
  if (variable(environment, {"NO_GCE_CHECK"}) == "true") return std::nullopt;
  const std::string url =
      "http://" +
      variable(environment, {"GCE_METADATA_HOST", "GCE_METADATA_IP"}, "169.254.169.254") +
      "/computeMetadata/v1/instance/service-accounts/default/token";
  try {
    const HttpAnswer answer =
        call(client, unsigned_target(url),
             {.header_lines = {"Metadata-Flavor: Google"}, .once = std::chrono::seconds(1)}, stop);
    if (answer.head.field("metadata-flavor") != "Google") return std::nullopt;
    return from_answer(answer.body, url);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kIo || cannot_be_seen(error)) return std::nullopt;
    throw;
  }
}

}  // namespace

std::string service_account_jwt(const ServiceAccount& account, std::int64_t now) {
  Json header{{"alg", "RS256"}, {"typ", "JWT"}};
  if (!account.key_id.empty()) header["kid"] = account.key_id;
  const Json claims{{"iss", account.email},
                    {"scope", kScope},
                    {"aud", account.token_url},
                    {"iat", now},
                    {"exp", now + kHour}};
  const std::string text = base64_url(header.dump()) + "." + base64_url(claims.dump());
  return text + "." + base64_url(rs256(account.private_key, text));
}

Renewed<std::string>::Fetched find_google_token(HttpClient& client, const Environment& environment,
                                                const std::stop_token& stop) {
  // An emulator knows no credentials, and must not learn real ones.
  if (!variable(environment, {"STORAGE_EMULATOR_HOST"}).empty()) return {};
  const std::string named = variable(environment, {"GOOGLE_APPLICATION_CREDENTIALS"});
  const std::string usual =
      variable(environment, {"CLOUDSDK_CONFIG"}, in_home(environment, ".config/gcloud")) +
      "/application_default_credentials.json";
  const std::string& path = named.empty() ? usual : named;
  if (const auto text = read_small_file(path)) return from_file(client, path, *text, stop);
  if (!named.empty())
    throw Error(ErrorCode::kNotFound, "GOOGLE_APPLICATION_CREDENTIALS names no file",
                {.url = named});
  if (auto found = token_from_instance(client, environment, stop)) return *std::move(found);
  return {};
}

}  // namespace millrace::io::detail
