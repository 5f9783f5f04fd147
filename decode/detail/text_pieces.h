// A text's way to the words that byte pair encoding takes: normalizers change it, pre-tokenizers
// split it, as tokenizer.json describes both.
//
// Threads: what is made is called from many threads.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace millrace::decode::detail {

using Pieces = std::vector<std::string>;

/// Throws: Exhausted for a text that would become many times as long.
using Normalizer = std::function<std::string(std::string)>;
using PreTokenizer = std::function<Pieces(Pieces)>;

/// Of null, or an object with its "type". Throws: Unsupported, by name; nlohmann's exceptions for
/// what has another form.
Normalizer make_normalizer(const nlohmann::json& described);
PreTokenizer make_pre_tokenizer(const nlohmann::json& described);

}  // namespace millrace::decode::detail
