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
        lane_x[i] = LANE_ORDER(lane_x[i]) * (i < 4 ? LANE_UP : LANE_LATER_UP);
}

#define LANE_PART_DOT(sum, quad, xx) \
    w = quad; \
    sum += w.x * (xx).x; \
    sum += w.y * (xx).y; \
    sum += w.z * (xx).z; \
    sum += w.w * (xx).w;

float lane_dot(uint raw[LANE_RAW])
{
    vec2 scale, least;
    vec4 w;
    float first = -LANE_CENTRE * lane_sum0, second = -LANE_CENTRE * lane_sum1;
    lane_affine(raw, scale, least);
    LANE_READY(raw, 0)
    LANE_PART_DOT(first, LANE_QUAD(raw, 0, 0), lane_x[0])
    LANE_PART_DOT(first, LANE_QUAD(raw, 0, 1), lane_x[1])
    LANE_PART_DOT(first, LANE_QUAD(raw, 0, 2), lane_x[2])
    LANE_PART_DOT(first, LANE_QUAD(raw, 0, 3), lane_x[3])
    LANE_TURN(raw, 0)
    LANE_PART_DOT(second, LANE_LATER(raw, 0, 0), lane_x[4])
    LANE_PART_DOT(second, LANE_LATER(raw, 0, 1), lane_x[5])
    LANE_PART_DOT(second, LANE_LATER(raw, 0, 2), lane_x[6])
    LANE_PART_DOT(second, LANE_LATER(raw, 0, 3), lane_x[7])
    float y = LANE_GROUPS == 1 ? scale.x * (first + second) : scale.x * first + scale.y * second;
    if (LANE_MINIMUM)
        y -= LANE_GROUPS == 1 ? least.x * (lane_sum0 + lane_sum1)
                              : least.x * lane_sum0 + least.y * lane_sum1;
    return y;
}
