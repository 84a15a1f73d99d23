/* meet.c - a program that meets once and ends, through libtandem. */
#include <tandem/tandem.h>

#include <stdio.h>

int main(void)
{
    tdm_group *world = NULL;
    tdm_status st = tdm_group_create(NULL, &world);
    if (st == TDM_OK)
        st = tdm_barrier(world, NULL);
    if (st != TDM_OK)
        fprintf(stderr, "meet: %s\n", tdm_error_text());
    tdm_group_destroy(world);
    return st != TDM_OK;
}
