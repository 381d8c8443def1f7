// The product of a lane's 32 columns of a row with x, from the parts that lib weight_*_subgroup
// unpacks.
//
// Needs libs weight_subgroup and weight_*_subgroup, and HALVES 0.
float lane_sum0, lane_sum1; // of the lane's x, of 16 columns each

// Call once when lane_x has the lane's x, in all invocations of the group.
void lane_prepare()
{
    LANE_TABLES
    lane_sum0 = LANE_SUM16(0);
    lane_sum1 = LANE_SUM16(4);
    for (int i = 0; i < 8; i++)
        lane_x[i] = LANE_ORDER(lane_x[i]) * LANE_UP;
}

#define LANE_PART_DOT(sum, i, xx) \
    w = LANE_QUAD(raw, 0, i); \
    sum += w.x * (xx).x; \
    sum += w.y * (xx).y; \
    sum += w.z * (xx).z; \
    sum += w.w * (xx).w;
#define LANE_HALF_DOT(sum, at) \
    LANE_PART_DOT(sum, 0, lane_x[at]) \
    LANE_PART_DOT(sum, 1, lane_x[(at) + 1]) \
    LANE_PART_DOT(sum, 2, lane_x[(at) + 2]) \
    LANE_PART_DOT(sum, 3, lane_x[(at) + 3])

float lane_dot(uint raw[LANE_RAW])
{
    vec2 scale, least;
    vec4 w;
    float first = -LANE_CENTRE * lane_sum0, second = -LANE_CENTRE * lane_sum1;
    lane_affine(raw, scale, least);
    LANE_READY(raw, 0)
    LANE_HALF_DOT(first, 0)
    LANE_NEXT(raw, 0)
    LANE_HALF_DOT(second, 4)
    float y = LANE_GROUPS == 1 ? scale.x * (first + second) : scale.x * first + scale.y * second;
    if (LANE_MINIMUM)
        y -= LANE_GROUPS == 1 ? least.x * (lane_sum0 + lane_sum1)
                              : least.x * lane_sum0 + least.y * lane_sum1;
    return y;
}
