// BearerSigner: a signer whose secret is one token, given, found or fetched.
//
// Threads: as Signer.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <utility>

#include "io/detail/http/http_exchange.h"
#include "io/detail/http/renewed.h"
#include "io/detail/http/signer.h"

namespace millrace::io::detail {

class BearerSigner final : public Signer {
 public:
  using Fetch =
      std::function<Renewed<std::string>::Fetched(HttpClient& client, const std::stop_token& stop)>;

  /// `fetch` is called at most once per lifetime; an empty token makes requests anonymous. `clock`
  /// is borrowed.
  BearerSigner(const Clock& clock, Fetch fetch) : clock_(clock), fetch_(std::move(fetch)) {}

  bool ready() const override { return token_.ready(clock_.now()); }
  SecretLines sign(HttpClient& client, const UnsignedRequest&,
                   const std::stop_token& stop) override {
    const auto held = token_.get(clock_, stop, [&] { return fetch_(client, stop); });
    if (held.secret.empty()) return {.lines = {}, .version = held.version};
    return {.lines = {"Authorization: Bearer " + held.secret}, .version = held.version};
  }
  bool reconsider(const HttpHead& head, std::string_view, std::uint64_t version) override {
    if (head.status() != 401) return false;
    token_.refused(version);
    return true;
  }

 private:
  const Clock& clock_;
  Fetch fetch_;
  Renewed<std::string> token_;
};

}  // namespace millrace::io::detail
