// millrace ls: the samples of shards, with each field's offset, size and checksum.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/base/hash.h"
#include "tools/commands.h"
#include "tools/read_options.h"
#include "tools/scan.h"
#include "tools/values.h"
#include "wds/shard_spec.h"

namespace millrace::tools {
namespace {

std::string json_line(const wds::Sample& sample) {
  auto fields = nlohmann::ordered_json::object();
  for (const wds::Field& field : sample.fields)
    fields[field.suffix] = {{"offset", field.offset},
                            {"size", field.data.size()},
                            {"crc32", fmt::format("{:08x}", crc32(field.data.span()))}};
  const nlohmann::ordered_json line = {{"url", io::printable_url(*sample.url)},
                                       {"key", sample.key},
                                       {"offset", sample.offset},
                                       {"fields", std::move(fields)}};
  return json_text(line);
}

std::string text_line(const wds::Sample& sample) {
  std::string line = shown_name(sample.key);
  for (const wds::Field& field : sample.fields)
    line += fmt::format("  {} {}", shown_name(field.suffix), field.data.size());
  return line;
}

// An entry of a store's folder; a folder in it has no size.
std::string entry_line(const io::ListedObject& entry, bool json) {
  if (json)
    return json_text(
        nlohmann::ordered_json{{"url", io::printable_url(entry.url)}, {"bytes", entry.bytes}});
  const std::string size = entry.url.ends_with('/') ? "" : std::to_string(entry.bytes);
  return fmt::format("{:>14}  {}", size, shown_name(io::printable_url(entry.url)));
}

class LsCommand final : public Command {
 public:
  std::string name() const override { return "ls"; }
  std::string summary() const override {
    return "Lists samples: key, fields, sizes; or a bucket's folder";
  }
  std::string example() const override {
    return "  millrace ls 'train-{000000..000019}.tar'\n"
           "  millrace ls --json https://host/train-000000.tar | head -n 3\n"
           "  millrace ls s3://bucket/train/\n";
  }
  void declare(CLI::App& app) override {
    read_.declare(app);
    app.add_option("--limit", limit_, "Maximum samples or objects to list; 0: all")
        ->transform(whole_number(0));
  }
  void check() override { read_.check(); }

  void run(CommandContext& context) override {
    read_.network.attach(context);
    if (list_folders(context)) return;
    const auto urls = read_.shards();
    const auto opener = read_.network.opener();
    wds::FaultLedger ledger(read_.policy(), context.log);
    std::int64_t listed = 0;
    std::shared_ptr<const std::string> shown;
    const auto list = [&](const wds::Sample& sample) {
      if (!context.json && sample.url != shown)
        context.out.line(shown_name(io::printable_url(*sample.url)) + ":");
      shown = sample.url;
      context.out.line(context.json ? json_line(sample) : "  " + text_line(sample));
      return ++listed != limit_;
    };
    scan({.shards = urls, .opener = *opener, .ledger = ledger, .stop = context.stop}, list);
  }

 private:
  // Whether the specs are stores' folders: then their entries are listed, not samples.
  bool list_folders(CommandContext& context) const {
    const auto opener = read_.network.opener();
    const auto is_folder = [&](const std::string& spec) {
      return spec.ends_with('/') && wds::union_parts(spec).size() == 1 && opener->can_list(spec);
    };
    if (!std::ranges::all_of(read_.specs, is_folder)) return false;
    std::int64_t listed = 0;
    for (const std::string& spec : read_.specs) {
      for (const io::ListedObject& entry : opener->list(spec)) {
        if (limit_ != 0 && listed++ == limit_) return true;
        context.out.line(entry_line(entry, context.json));
      }
    }
    return true;
  }

  ReadOptions read_;
  std::int64_t limit_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_ls_command() { return std::make_unique<LsCommand>(); }

}  // namespace millrace::tools
