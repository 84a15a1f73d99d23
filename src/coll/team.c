/* team.c - what a group's ranks have in common. */
#include "coll/team.h"

bool tdmi_team_done(tdmi_team *team, uint64_t number)
{
    if (number <= team->peers_done)
        return true;
    if (team->board == NULL)
        return true;
    uint64_t least = UINT64_MAX;
    for (int r = 0; r < team->n; r++)
        if (team->board[r] != NULL) {
            /* acquire: what the rank read in those calls is read; pairs with the release in group/work.c */
            uint64_t done = atomic_load_explicit(&team->board[r]->done, memory_order_acquire);
            least = done < least ? done : least;
        }
    team->peers_done = least;
    return number <= least;
}

unsigned tdmi_team_reach(const tdmi_team *team)
{
    unsigned reach = TDMI_NEEDS_LINKS | TDMI_NEEDS_NODE;
    if (team->is_local)
        reach |= TDMI_NEEDS_SLOT | TDMI_NEEDS_STAGE | (team->reads ? TDMI_NEEDS_READ : 0);
    return reach;
}
