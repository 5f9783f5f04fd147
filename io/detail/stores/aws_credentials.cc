#include "io/detail/stores/aws_credentials.h"

#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/base/json.h"
#include "io/base/text.h"
#include "io/detail/http/http_call.h"
#include "io/detail/http/url.h"
#include "io/detail/stores/xml.h"
#include "io/opener.h"

namespace millrace::io::detail {
namespace {

using FetchedKeys = Renewed<AwsKeys>::Fetched;
using Settings = std::map<std::string, std::string>;

// Metadata services answer at once or are not there.
constexpr Clock::Duration kMetadataLimit = std::chrono::seconds(1);

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// Adds the settings of the section [`name`], or [profile `name`]; returns whether it is there.
bool read_section(std::string_view text, const std::string& name, Settings& settings) {
  bool found = false;
  bool inside = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view raw = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view line = trimmed(raw);
    const std::size_t equals = line.find('=');
    if (line.starts_with('[')) {
      std::string_view section = trimmed(line.substr(1, line.find(']') - 1));
      if (section.starts_with("profile ")) section = trimmed(section.substr(8));
      inside = section == name;
      found = found || inside;
    } else if (inside && equals != std::string_view::npos && raw.front() != ' ' &&
               raw.front() != '\t' && !line.starts_with('#') && !line.starts_with(';')) {
      settings[std::string(trimmed(line.substr(0, equals)))] = trimmed(line.substr(equals + 1));
    }
  }
  return found;
}

std::string setting(const Settings& settings, const std::string& name) {
  const auto found = settings.find(name);
  return found == settings.end() ? "" : found->second;
}

// "2026-01-31T12:00:00Z", with or without a fraction.
std::optional<std::int64_t> time_of(const std::string& text) {
  std::tm parts{};
  if (std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d", &parts.tm_year, &parts.tm_mon,
                  &parts.tm_mday, &parts.tm_hour, &parts.tm_min, &parts.tm_sec) != 6)
    return std::nullopt;
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  return timegm(&parts);
}

// By the clock of the server that set the time: ours may be off.
std::optional<Clock::Duration> lifetime(const std::string& expiration, const HttpHead& head) {
  const auto until = time_of(expiration);
  if (!until) return std::nullopt;
  return std::chrono::seconds(*until - server_time(head).value_or(std::time(nullptr)));
}

[[noreturn]] void incomplete(const std::string& url) {
  throw Error(ErrorCode::kCorrupt, "the answer holds no AWS credentials", {.url = url});
}

FetchedKeys from_json(const HttpAnswer& answer, const std::string& url) {
  try {
    const auto json = parse_json<nlohmann::json>(answer.body, "credentials", {.depth = 8});
    return {.secret = {.access_key_id = json.at("AccessKeyId").get<std::string>(),
                       .secret_access_key = json.at("SecretAccessKey").get<std::string>(),
                       .session_token = json.at("Token").get<std::string>()},
            .lifetime = lifetime(json.value("Expiration", ""), answer.head)};
  } catch (const nlohmann::json::exception&) {
    incomplete(url);
  }
}

FetchedKeys from_web_identity(HttpClient& client, const Environment& environment,
                              const std::string& token_file, const std::string& role,
                              const std::string& session, const std::string& region,
                              const std::stop_token& stop) {
  const std::string url =
      variable(environment, {"AWS_ENDPOINT_URL_STS"},
               "https://sts." + (region.empty() ? "us-east-1" : region) + ".amazonaws.com") +
      "/";
  const std::string form =
      "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=" + percent_encoded(role) +
      "&RoleSessionName=" + percent_encoded(session.empty() ? "millrace" : session) +
      "&WebIdentityToken=" + percent_encoded(read_token_file(token_file));
  const HttpAnswer answer =
      call(client, unsigned_target(url),
           {.method = "POST",
            .header_lines = {"Content-Type: application/x-www-form-urlencoded"},
            .body = Bytes::copy_of(form)},
           stop);
  const XmlElement root = parse_xml(answer.body, "the answer of " + url);
  const XmlElement* result = root.child("AssumeRoleWithWebIdentityResult");
  const XmlElement* keys = result == nullptr ? nullptr : result->child("Credentials");
  if (keys == nullptr || keys->text_of("AccessKeyId").empty()) incomplete(url);
  return {.secret = {.access_key_id = std::string(keys->text_of("AccessKeyId")),
                     .secret_access_key = std::string(keys->text_of("SecretAccessKey")),
                     .session_token = std::string(keys->text_of("SessionToken"))},
          .lifetime = lifetime(std::string(keys->text_of("Expiration")), answer.head)};
}

std::optional<FetchedKeys> from_profile(HttpClient& client, const Environment& environment,
                                        const std::stop_token& stop) {
  const Settings profile = aws_profile(environment);
  const auto get = [&](const char* name) { return setting(profile, name); };
  if (!get("aws_access_key_id").empty()) {
    return FetchedKeys{.secret = {.access_key_id = get("aws_access_key_id"),
                                  .secret_access_key = get("aws_secret_access_key"),
                                  .session_token = get("aws_session_token")}};
  }
  if (!get("web_identity_token_file").empty()) {
    return from_web_identity(client, environment, get("web_identity_token_file"), get("role_arn"),
                             get("role_session_name"), get("region"), stop);
  }
  for (const char* other : {"credential_process", "sso_session", "sso_start_url", "role_arn"}) {
    if (profile.contains(other))
      throw Error(ErrorCode::kUnsupported,
                  "the AWS profile finds its credentials by " + std::string(other) +
                      ", which is not supported: `aws configure export-credentials --format env` "
                      "prints variables that are");
  }
  return std::nullopt;
}

// Only where AWS's containers keep it, on this machine, or over TLS: its token is a secret.
void check_container_url(const std::string& url) {
  for (const char* allowed :
       {"https://", "http://127.0.0.1", "http://localhost", "http://[::1]", "http://169.254.170.2",
        "http://169.254.170.23", "http://[fd00:ec2::23]"}) {
    const std::string_view prefix = allowed;
    if (!url.starts_with(prefix)) continue;
    const char next = url.size() > prefix.size() ? url[prefix.size()] : '/';
    if (prefix == "https://" || next == '/' || next == ':') return;
  }
  throw Error(ErrorCode::kInvalidArgument,
              "AWS_CONTAINER_CREDENTIALS_FULL_URI names neither this machine nor an https server",
              {.url = url});
}

std::optional<FetchedKeys> from_container(HttpClient& client, const Environment& environment,
                                          const std::stop_token& stop) {
  const std::string path = variable(environment, {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"});
  std::string url = variable(environment, {"AWS_CONTAINER_CREDENTIALS_FULL_URI"});
  if (path.empty() && url.empty()) return std::nullopt;
  if (path.empty()) {
    check_container_url(url);
  } else {
    url = "http://169.254.170.2" + path;
  }
  std::string token = variable(environment, {"AWS_CONTAINER_AUTHORIZATION_TOKEN"});
  const std::string file = variable(environment, {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"});
  if (!file.empty()) token = read_token_file(file);
  HttpCall ask;
  if (!token.empty()) ask.header_lines.push_back("Authorization: " + token);
  return from_json(call(client, unsigned_target(url), ask, stop), url);
}

// The service's session token; nullopt on a machine without the service.
std::optional<std::string> instance_token(HttpClient& client, const std::string& endpoint,
                                          const std::stop_token& stop) {
  try {
    return call(client, unsigned_target(endpoint + "/latest/api/token"),
                {.method = "PUT",
                 .header_lines = {"X-aws-ec2-metadata-token-ttl-seconds: 21600"},
                 .once = kMetadataLimit},
                stop)
        .body;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled) throw;
    return std::nullopt;
  }
}

std::optional<FetchedKeys> keys_from_instance(HttpClient& client, const Environment& environment,
                                              const std::stop_token& stop) {
  if (variable(environment, {"AWS_EC2_METADATA_DISABLED"}) == "true") return std::nullopt;
  const std::string endpoint =
      variable(environment, {"AWS_EC2_METADATA_SERVICE_ENDPOINT"}, "http://169.254.169.254");
  const auto token = instance_token(client, endpoint, stop);
  if (!token) return std::nullopt;
  const std::string folder = endpoint + "/latest/meta-data/iam/security-credentials/";
  HttpCall ask{.header_lines = {"X-aws-ec2-metadata-token: " + *token}, .also = {404}};
  const HttpAnswer roles = call(client, unsigned_target(folder), ask, stop);
  if (roles.head.status() == 404) return std::nullopt;  // an instance without a role
  const std::string role = roles.body.substr(0, roles.body.find_first_of("\r\n"));
  ask.also.clear();
  return from_json(call(client, unsigned_target(folder + percent_encoded(role)), ask, stop),
                   folder);
}

}  // namespace

std::map<std::string, std::string> aws_profile(const Environment& environment) {
  const std::string asked = variable(environment, {"AWS_PROFILE", "AWS_DEFAULT_PROFILE"});
  const std::string name = asked.empty() ? "default" : asked;
  Settings settings;
  bool found = false;
  // Keys of the credentials file are preferred: it is read last.
  const std::pair<const char*, const char*> files[] = {
      {"AWS_CONFIG_FILE", ".aws/config"}, {"AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"}};
  for (const auto& [file, usual] : files) {
    const auto text = read_small_file(variable(environment, {file}, in_home(environment, usual)));
    if (text && read_section(*text, name, settings)) found = true;
  }
  if (!asked.empty() && !found)
    throw Error(ErrorCode::kInvalidArgument, "there is no AWS profile " + printable(asked));
  return settings;
}

Renewed<AwsKeys>::Fetched find_aws_keys(HttpClient& client, const Environment& environment,
                                        const std::stop_token& stop) {
  const auto get = [&](const char* name) { return variable(environment, {name}); };
  if (!get("AWS_ACCESS_KEY_ID").empty()) {
    return {.secret = {.access_key_id = get("AWS_ACCESS_KEY_ID"),
                       .secret_access_key = get("AWS_SECRET_ACCESS_KEY"),
                       .session_token = get("AWS_SESSION_TOKEN")}};
  }
  if (!get("AWS_WEB_IDENTITY_TOKEN_FILE").empty()) {
    return from_web_identity(client, environment, get("AWS_WEB_IDENTITY_TOKEN_FILE"),
                             get("AWS_ROLE_ARN"), get("AWS_ROLE_SESSION_NAME"),
                             variable(environment, {"AWS_REGION", "AWS_DEFAULT_REGION"}), stop);
  }
  if (auto found = from_profile(client, environment, stop)) return *std::move(found);
  if (auto found = from_container(client, environment, stop)) return *std::move(found);
  if (auto found = keys_from_instance(client, environment, stop)) return *std::move(found);
  return {};
}

}  // namespace millrace::io::detail
