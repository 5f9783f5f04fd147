// millrace cat: one field's bytes.
#include <CLI/App.hpp>

#include "io/base/error.h"
#include "tools/commands.h"
#include "tools/read_options.h"
#include "tools/scan.h"
#include "wds/member_name.h"
#include "wds/printable_spec.h"

namespace millrace::tools {
namespace {

class CatCommand final : public Command {
 public:
  std::string name() const override { return "cat"; }
  std::string summary() const override { return "Writes one field's bytes to standard output"; }
  std::string example() const override {
    return "  millrace cat train-000000.tar 00000042.jpg > image.jpg\n";
  }
  void declare(CLI::App& app) override {
    app.add_option("SPEC", spec_, "Shards, searched in order")->required();
    app.add_option("MEMBER", member_, "KEY.SUFFIX of the field")->required();
    read_.faults.declare(app);
    read_.network.declare(app);
  }
  void check() override {
    if (!wds::split_member_name(member_))
      throw Error(ErrorCode::kInvalidArgument, member_ + " is not of the form KEY.SUFFIX");
    read_.check({spec_});
  }

  void run(CommandContext& context) override {
    read_.network.attach(context);
    const auto urls = read_.lists.urls({spec_});
    const auto opener = read_.network.opener();
    wds::FaultLedger ledger(read_.policy(), context.log);
    const auto wanted = wds::split_member_name(member_);
    bool found = false;
    const auto look = [&](const wds::Sample& sample) {
      const wds::Field* field = sample.key == wanted->key ? sample.find(wanted->suffix) : nullptr;
      if (field != nullptr) context.out.write(field->data.span());
      found = field != nullptr;
      return !found;
    };
    scan({.shards = urls,
          .opener = *opener,
          .ledger = ledger,
          .stop = context.stop,
          .indexed = true},
         look);
    if (!found)
      throw Error(ErrorCode::kNotFound, "no " + member_ + " in " + wds::printable_spec(spec_));
  }

 private:
  ReadOptions read_;
  std::string spec_;
  std::string member_;
};

}  // namespace

std::unique_ptr<Command> make_cat_command() { return std::make_unique<CatCommand>(); }

}  // namespace millrace::tools
