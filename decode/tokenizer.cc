#include "decode/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "decode/detail/byte_pairs.h"
#include "decode/detail/text_pieces.h"
#include "decode/detail/token_model.h"
#include "decode/detail/unicode.h"
#include "io/base/error.h"
#include "io/base/hash.h"
#include "io/base/json.h"
#include "io/base/text.h"

namespace millrace::decode {
namespace {

using nlohmann::json;

constexpr std::size_t kMostTokenizerBytes = std::size_t{64} * 1024 * 1024;
constexpr std::uint32_t kMostTokens = 1U << 24;
constexpr std::size_t kMostAdded = 64;

[[noreturn]] void refuse_tokenizer(const std::string& what) {
  throw Error(ErrorCode::kUnsupported, what + " is not supported");
}

std::uint32_t token_number(const json& value) {
  return json_integer<std::uint32_t>(value, "a token's number", 0, kMostTokens - 1);
}

/// Tokens that texts have in them as they are: found before the text is split.
class AddedTokens {
 public:
  struct Token {
    std::uint32_t number = 0;
    bool takes_spaces_before = false, takes_spaces_behind = false;
  };
  struct Found {
    std::size_t begin, end;
    Token token;
  };

  void add(const std::string& text, const Token& token) {
    if (text.empty()) return;
    tokens_.insert_or_assign(text, token);
    lengths_.insert(text.size());
  }

  /// Calls on_text and on_token for all of `text`, in order.
  void split(std::string_view text, const std::function<void(std::string_view)>& on_text,
             const std::function<void(std::uint32_t)>& on_token) const {
    std::size_t done = 0;
    while (const auto found = find(text, done)) {
      if (found->begin > done) on_text(text.substr(done, found->begin - done));
      on_token(found->token.number);
      done = found->end;
    }
    if (done < text.size()) on_text(text.substr(done));
  }

 private:
  /// The first at `from` or behind it, the longest of those that begin there.
  std::optional<Found> find(std::string_view text, std::size_t from) const {
    for (std::size_t at = from; at < text.size(); ++at)
      for (const std::size_t length : lengths_) {
        const auto token = tokens_.find(text.substr(at, length));
        if (token != tokens_.end())
          return with_spaces(text, from, {at, at + token->first.size(), token->second});
      }
    return {};
  }
  static Found with_spaces(std::string_view text, std::size_t from, Found found) {
    const auto is_space = [&](std::size_t at) {
      return detail::char_at(text, at).kind == detail::CharKind::kSpace;
    };
    while (found.token.takes_spaces_before && found.begin > from) {
      const std::size_t before = detail::char_before(text, found.begin);
      if (!is_space(before)) break;
      found.begin = before;
    }
    while (found.token.takes_spaces_behind && found.end < text.size() && is_space(found.end))
      found.end += detail::char_at(text, found.end).bytes;
    return found;
  }

  detail::TextMap<Token> tokens_;
  std::set<std::size_t, std::greater<>> lengths_;
};

std::pair<std::string, std::string> merge_of(const json& described) {
  if (described.is_array() && described.size() == 2)
    return {described[0].get<std::string>(), described[1].get<std::string>()};
  const auto text = described.get<std::string>();
  const std::size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
    throw Error(ErrorCode::kCorrupt, "a merge is two pieces, not \"" + printable(text) + '"');
  return {text.substr(0, space), text.substr(space + 1)};
}

std::string text_or_nothing(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? std::string() : found->get<std::string>();
}

bool is_true(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && !found->is_null() && found->get<bool>();
}

void check_model(const json& model) {
  // Files of before have no type: their only model was BPE.
  const std::string type = text_or_nothing(model, "type");
  if (!(type == "BPE" || (type.empty() && model.contains("merges"))))
    refuse_tokenizer("model " + (type.empty() ? "without a type" : printable(type)));
  if (is_true(model, "byte_fallback")) refuse_tokenizer("model BPE with byte_fallback");
  if (!text_or_nothing(model, "continuing_subword_prefix").empty())
    refuse_tokenizer("model BPE with a continuing_subword_prefix");
  const auto dropout = model.find("dropout");
  if (dropout != model.end() && !dropout->is_null() && dropout->get<double>() != 0)
    refuse_tokenizer("model BPE with dropout");
}

detail::BytePairs make_model(const json& model) {
  check_model(model);
  detail::BytePairOptions options = {
      .end_of_word = text_or_nothing(model, "end_of_word_suffix"),
      .fuses_unknown = is_true(model, "fuse_unk"),
      .ignores_merges = is_true(model, "ignore_merges"),
  };
  for (const auto& [piece, number] : model.at("vocab").get_ref<const json::object_t&>())
    options.vocabulary.emplace(piece, token_number(number));
  for (const json& merge : model.at("merges").get_ref<const json::array_t&>())
    options.merges.push_back(merge_of(merge));
  const std::string unknown = text_or_nothing(model, "unk_token");
  if (!unknown.empty()) options.unknown = unknown;
  return detail::BytePairs(std::move(options));
}

/// What a post-processor puts around a text.
struct Around {
  std::vector<std::int64_t> before, behind;
};

Around of_template(const json& described) {
  Around around;
  std::size_t texts = 0;
  for (const json& part : described.at("single")) {
    if (part.contains("Sequence")) {
      ++texts;
      continue;
    }
    const auto name = part.at("SpecialToken").at("id").get<std::string>();
    for (const json& number : described.at("special_tokens").at(name).at("ids"))
      (texts == 0 ? around.before : around.behind).push_back(token_number(number));
  }
  if (texts != 1) refuse_tokenizer("post_processor TemplateProcessing of other than one text");
  return around;
}

Around around_of(const json& described) {
  if (described.is_null()) return {};
  const auto type = described.at("type").get<std::string>();
  if (type == "ByteLevel") return {};
  if (type == "TemplateProcessing") return of_template(described);
  if (type == "RobertaProcessing" || type == "BertProcessing")
    return {{token_number(described.at("cls").at(1))}, {token_number(described.at("sep").at(1))}};
  if (type != "Sequence") refuse_tokenizer("post_processor " + printable(type));
  Around all;
  for (const json& one : described.at("processors")) {
    const Around around = around_of(one);
    all.before.insert(all.before.begin(), around.before.begin(), around.before.end());
    all.behind.insert(all.behind.end(), around.behind.begin(), around.behind.end());
  }
  return all;
}

/// "key 'model' not found", without the library's own number of it.
std::string plain_message(const json::exception& error) {
  const std::string text = error.what();
  const std::size_t end = text.find("] ");
  return end == std::string::npos ? text : text.substr(end + 2);
}

/// Of Hugging Face's tokenizer.json.
class JsonModel final : public detail::TokenModel {
 public:
  explicit JsonModel(const json& described)
      : model_(make_model(described.at("model"))),
        normalizer_(detail::make_normalizer(part(described, "normalizer"))),
        pre_tokenizer_(detail::make_pre_tokenizer(part(described, "pre_tokenizer"))) {
    Around around = around_of(part(described, "post_processor"));
    before = std::move(around.before);
    behind = std::move(around.behind);
    for (const auto& [piece, number] : described.at("model").at("vocab").items()) note(number);
    for (const json& token : part(described, "added_tokens")) add(token);
    for (const auto* side : {&before, &behind})
      for (const std::int64_t number : *side) vocabulary = std::max(vocabulary, number + 1);
    if (before.size() + behind.size() > kMostAdded)
      refuse_tokenizer(fmt::format("post_processor of more than {} tokens", kMostAdded));
  }

  void encode(std::string_view text, std::size_t most,
              std::vector<std::int64_t>& numbers) const override {
    const auto on_token = [&](std::uint32_t number) { numbers.push_back(number); };
    as_written_.split(
        text,
        [&](std::string_view part) {
          if (numbers.size() >= most) return;
          const std::string normal = normalizer_(std::string(part));
          as_normalized_.split(
              normal, [&](std::string_view rest) { encode_words(rest, most, numbers); }, on_token);
        },
        on_token);
  }

 private:
  static json part(const json& described, const char* key) {
    const auto found = described.find(key);
    return found == described.end() ? json() : *found;
  }
  void note(const json& number) {
    vocabulary = std::max(vocabulary, std::int64_t{token_number(number)} + 1);
  }
  void add(const json& token) {
    const auto text = token.at("content").get<std::string>();
    if (is_true(token, "single_word"))
      refuse_tokenizer("added token \"" + printable(text) + "\" of single words");
    note(token.at("id"));
    const AddedTokens::Token added = {.number = token_number(token.at("id")),
                                      .takes_spaces_before = is_true(token, "lstrip"),
                                      .takes_spaces_behind = is_true(token, "rstrip")};
    const auto known = model_.number_of(text);
    if (known && *known != added.number)
      throw Error(ErrorCode::kCorrupt, "two numbers of the token \"" + printable(text) + '"');
    if (is_true(token, "normalized"))
      as_normalized_.add(normalizer_(text), added);
    else
      as_written_.add(text, added);
  }
  void encode_words(std::string_view text, std::size_t most,
                    std::vector<std::int64_t>& numbers) const {
    for (const std::string& word : pre_tokenizer_({std::string(text)})) {
      if (numbers.size() >= most) return;
      model_.encode(word, numbers);
    }
  }

  detail::BytePairs model_;
  detail::Normalizer normalizer_;
  detail::PreTokenizer pre_tokenizer_;
  AddedTokens as_written_, as_normalized_;
};

std::unique_ptr<const detail::TokenModel> json_model(const io::Bytes& contents) try {
  return std::make_unique<JsonModel>(
      parse_json<json>(contents.text(), "tokenizer", {.bytes = kMostTokenizerBytes}));
} catch (const json::exception& error) {
  throw Error(ErrorCode::kCorrupt, "not a tokenizer: " + plain_message(error));
}

std::unique_ptr<const detail::TokenModel> model_of(const io::Bytes& contents,
                                                   const std::string& url) {
  return io::printable_url(url).ends_with(".model") ? detail::sentence_piece_model(contents)
                                                    : json_model(contents);
}

std::string sha256_of(const io::Bytes& contents) {
  Sha256 hash;
  hash.update(contents.span());
  return hash.hex();
}

}  // namespace

struct Tokenizer::State {
  State(const io::Bytes& contents, std::string name)
      : url(std::move(name)), sha256(sha256_of(contents)), model(model_of(contents, url)) {}

  std::string url, sha256;
  std::unique_ptr<const detail::TokenModel> model;
};

Tokenizer::Tokenizer(const io::Bytes& contents, std::string url) try
    : state_(std::make_unique<const State>(contents, url)) {
} catch (Error& error) {
  error.annotate({.url = url});
  throw;
}

Tokenizer::~Tokenizer() = default;

std::vector<std::int64_t> Tokenizer::encode(std::string_view text, std::size_t most,
                                            const TokenMarks& marks) const {
  const std::size_t good = utf8_prefix(text);
  if (good < text.size())
    throw Error(ErrorCode::kCorrupt, "text that is not UTF-8", {.offset = good});
  const std::size_t room = most - std::min(most, num_added(marks));
  std::vector<std::int64_t> numbers;
  state_->model->encode(text, room, numbers);
  if (numbers.size() > room) numbers.resize(room);
  const auto& [before, behind] = std::tie(state_->model->before, state_->model->behind);
  numbers.insert(numbers.begin(), before.begin(), before.end());
  if (marks.begin) numbers.insert(numbers.begin(), *marks.begin);
  numbers.insert(numbers.end(), behind.begin(), behind.end());
  if (marks.end) numbers.push_back(*marks.end);
  return numbers;
}

std::size_t Tokenizer::num_added(const TokenMarks& marks) const {
  return state_->model->before.size() + state_->model->behind.size() +
         (marks.begin ? std::size_t{1} : 0) + (marks.end ? std::size_t{1} : 0);
}
std::int64_t Tokenizer::vocabulary() const { return state_->model->vocabulary; }
const std::string& Tokenizer::url() const { return state_->url; }
const std::string& Tokenizer::sha256() const { return state_->sha256; }

std::shared_ptr<const Tokenizer> read_tokenizer(const io::Opener& opener, const std::string& url) {
  return std::make_shared<const Tokenizer>(io::read_object(opener, url, kMostTokenizerBytes), url);
}

}  // namespace millrace::decode
