#include "tools/commands.h"

namespace millrace::tools {

std::vector<std::unique_ptr<Command>> all_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_create_command());
  commands.push_back(make_ls_command());
  commands.push_back(make_cat_command());
  commands.push_back(make_view_command());
  commands.push_back(make_stats_command());
  commands.push_back(make_verify_command());
  commands.push_back(make_index_command());
  commands.push_back(make_reshard_command());
  commands.push_back(make_order_command());
  commands.push_back(make_cache_command());
  commands.push_back(make_bench_command());
  commands.push_back(make_plan_command());
  commands.push_back(make_train_command());
  commands.push_back(make_eval_command());
  commands.push_back(make_predict_command());
  return commands;
}

}  // namespace millrace::tools
