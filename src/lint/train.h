/* train.h - where a script trains: loops and functions that run once a step, and which ranks run what. */
#ifndef TDMI_LINT_TRAIN_H
#define TDMI_LINT_TRAIN_H

#include "lint/script.h"

/* For tdmi_script_read: fills every_step and step_function. A step is what a call to backward() belongs to: the innermost loop around
 * it, or the function, if that is called in a loop. */
tdm_status tdmi_find_steps(tdmi_script *script);

/* loss.backward(), scaler.scale(loss).backward(), torch.autograd.backward(loss), accelerator.backward(loss) */
bool tdmi_is_backward(const tdmi_call *call);
/* What .backward() is called on: the loss, also in scaler.scale(loss).backward(). NULL: on nothing. */
const tdmi_node *tdmi_loss_of(const tdmi_call *backward);
/* A variable that has a model's name. */
bool tdmi_names_model(const tdmi_node *expression);
/* .step() of an optimizer, by its value or its name, or of a scaler. */
bool tdmi_is_optimizer_step(const tdmi_script *script, const tdmi_call *call);
bool tdmi_is_scaler_variable(const tdmi_script *script, const tdmi_node *expression);

/* Whether a node runs in every training step; `always`: only where no condition but one on the rank lies in between. */
bool tdmi_runs_each_step(const tdmi_script *script, const tdmi_node *node, bool always);
/* The statement or loop that is one step around a node: a loop, or a function called in one; NULL: none. */
const tdmi_node *tdmi_step_around(const tdmi_script *script, const tdmi_node *node);

/* What stands before a statement in its block. */
typedef struct tdmi_before {
    bool skips;                     /* an if that may go on to the next turn, or return */
    bool may_choose;                /* an if that returns, and that may have to do with ranks */
    const tdmi_node *rank_condition; /* that of an if that returns on some ranks; NULL: none */
} tdmi_before;

/* ---- ranks.c, before.c ---- */

/* For tdmi_script_read: fills before and on_some_ranks. */
tdm_status tdmi_find_ranks(tdmi_script *script);
/* A condition whose words may speak of a first process in a way that is not known here: `if self.should_save`. */
bool tdmi_may_choose_ranks(const tdmi_node *condition);

/* What a condition says of the rank. TDMI_SOME_RANKS: true on some ranks only, and rank 0 is or may be one; TDMI_OTHER_RANKS: true on
 * some only, not on 0. */
typedef enum { TDMI_ALL_RANKS, TDMI_SOME_RANKS, TDMI_OTHER_RANKS } tdmi_ranks;
tdmi_ranks tdmi_ranks_where(const tdmi_script *script, const tdmi_node *condition);
/* The condition because of which a node runs on some ranks only: an if around it, or one before it that returns on the others. NULL: on
 * all ranks, as far as this function goes. */
const tdmi_node *tdmi_rank_condition(const tdmi_script *script, const tdmi_node *node);
/* The same through the calls to the function around the node, where each of them has such a condition; one that only may have to do with
 * ranks (`if self.should_save`) counts. */
bool tdmi_runs_on_some_ranks(const tdmi_script *script, const tdmi_node *node);
/* Whether a name or text speaks of a rank: rank, local_rank, self.global_rank, RANK, get_rank(). */
bool tdmi_is_rank(const tdmi_script *script, const tdmi_node *expression);
/* Whether a rank is anywhere in an expression. */
bool tdmi_mentions_rank(const tdmi_script *script, const tdmi_node *expression);

#endif
