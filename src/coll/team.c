/* team.c - what a group's ranks have in common. */
#include "coll/team.h"

#include "coll/history.h"

tdm_status tdmi_team_done(tdmi_team *team, uint64_t number, bool *done)
{
    *done = number <= team->peers_done || team->board == NULL;
    if (*done)
        return TDM_OK;
    uint64_t least = UINT64_MAX;
    for (int r = 0; r < team->n; r++)
        if (team->board[r] != NULL) {
            /* acquire: what the rank read in those calls is read; pairs with the release in group/work.c */
            const uint64_t finished = atomic_load_explicit(&team->board[r]->done, memory_order_acquire);
            least = finished < least ? finished : least;
        }
    if (number > least)
        return TDM_OK;
    const tdm_status status = tdmi_history_check(team, least);
    if (status == TDM_OK)
        team->peers_done = least;
    *done = status == TDM_OK;
    return status;
}

unsigned tdmi_team_reach(const tdmi_team *team)
{
    unsigned reach = TDMI_NEEDS_LINKS | TDMI_NEEDS_NODE;
    if (team->is_local)
        reach |= TDMI_NEEDS_SLOT | TDMI_NEEDS_STAGE | (team->reads ? TDMI_NEEDS_READ : 0);
    return reach;
}
